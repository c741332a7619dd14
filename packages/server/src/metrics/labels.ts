import { createHash } from 'node:crypto';
import type { Tags } from '../app/job/tags.ts';

/** The label of all tag sets beyond the first hundred. No tag set has this label: each contains a `=`. */
export const OTHER = 'other';
const LONGEST = 200;

/**
 * The label of a tag set: `gpu=a100,scope=organization`, sorted, without an empty owner. Equal sets have the same label
 * and different sets different ones. A long label is cut, with a hash that keeps it distinct.
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
