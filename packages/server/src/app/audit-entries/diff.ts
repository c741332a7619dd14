import type { AuditDiff } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { TRACKED } from './tracked.ts';

/** The longest text of a value, in characters. A longer one is cut: the log shows changes, it does not store files. */
const LONGEST_TEXT = 4_096;

/** A value as JSON has it, so that dates, bytes and sets compare and are stored alike. */
function plain(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  const json = JSON.parse(JSON.stringify(value)) as unknown;
  if (typeof json === 'string') return json.length > LONGEST_TEXT ? `${json.slice(0, LONGEST_TEXT)}…` : json;
  return json;
}

/** The value of the same kind that stands for nothing, which the side without the object has. */
function zeroOf(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return '';
    case 'number':
      return 0;
    case 'boolean':
      return false;
    default:
      return null;
  }
}

const isNothing = (value: unknown) =>
  value === null || value === '' || value === 0 || value === false || (Array.isArray(value) && value.length === 0);

/**
 * The tracked fields that differ between two states of a resource. Without `before` it was created, without `after` it
 * was deleted. Secret values never appear.
 */
export function auditDiff(resourceType: string, before: object | undefined, after: object | undefined): AuditDiff {
  const diff: AuditDiff = {};
  if (!before && !after) return diff;
  for (const [name, tracking] of Object.entries(ownValue(TRACKED, resourceType) ?? {})) {
    const valueIn = (row: object | undefined) => {
      if (!row) return null;
      const given = row as Readonly<Record<string, unknown>>;
      return plain(typeof tracking === 'object' ? tracking.value(given) : given[name]);
    };
    let old = valueIn(before);
    let now = valueIn(after);
    if (JSON.stringify(old) === JSON.stringify(now) || (isNothing(old) && isNothing(now))) continue;
    if (tracking === 'secret') {
      diff[name] = { old: '', new: '', secret: true };
      continue;
    }
    if (old === null) old = zeroOf(now);
    if (now === null) now = zeroOf(old);
    diff[name] = { old, new: now, secret: false };
  }
  return diff;
}
