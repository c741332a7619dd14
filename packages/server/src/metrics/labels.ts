import { createHash } from 'node:crypto';
import type { Tags } from '../app/job/tags.ts';

/** Stands for all tag sets beyond the first hundred. No set is called so: each has a `=`. */
export const OTHER = 'other';
const LONGEST = 200;

/**
 * A tag set as a label: `gpu=a100,scope=organization`, sorted, without an empty owner. Alike for equal sets, different
 * for others; what is too long is cut and told apart by a hash.
 */
export function tagsLabel(tags: Readonly<Tags>): string {
  const escaped = (text: string) => text.replaceAll(/[\\,=]/g, '\\$&');
  const text = Object.entries(tags)
    .filter(([key, value]) => key !== 'owner' || value !== '')
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${escaped(key)}=${escaped(value)}`)
    .join(',');
  if (text.length <= LONGEST) return text;
  return `${text.slice(0, LONGEST)}…${createHash('sha256').update(text).digest('hex').slice(0, 8)}`;
}
