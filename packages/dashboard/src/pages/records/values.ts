import { formatDuration } from '../../util/time.ts';

/** Fields in nanoseconds. */
const DURATIONS = /^(?:.*_?ttl|activity_bump|time_til_dormant(?:_autodelete)?)$/;
const NANOSECONDS_PER_MS = 1_000_000;

export const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);

/** A value of a changed field for people. */
export function showValue(name: string, value: unknown): string {
  if (typeof value === 'number' && DURATIONS.test(name)) {
    return value === 0 ? 'off' : formatDuration(value / NANOSECONDS_PER_MS);
  }
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.join(', ');
  return JSON.stringify(value, null, 2);
}
