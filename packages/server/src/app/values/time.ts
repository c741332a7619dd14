/** The time that upstream's clients read as "never". */
export const NEVER = '0001-01-01T00:00:00Z';

/** Formats a time for the JSON API: RFC 3339 in UTC, with milliseconds. */
export function time(value: Date): string {
  return value.toISOString();
}

/** An object with the time as its only field, or without fields if the time is undefined. */
export function optionalTime<K extends string>(key: K, value: Date | null): { [P in K]?: string } {
  return (value === null ? {} : { [key]: value.toISOString() }) as { [P in K]?: string };
}
