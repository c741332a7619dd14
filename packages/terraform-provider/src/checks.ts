import { goUrlProblem } from './go-url.ts';
import type { Check } from './schema.ts';
import { isUnknown, type Value } from './value.ts';

/** Checks membership in a closed set of strings. */
export function oneOf(...allowed: string[]): Check {
  return (value) =>
    allowed.includes(value as string)
      ? undefined
      : `must be one of ${allowed.map((a) => JSON.stringify(a)).join(', ')}, not ${JSON.stringify(value)}`;
}

/** Checks for an integer within limits. Terraform itself only has "number". */
export function whole(least = Number.MIN_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER): Check {
  return (value: Value) => {
    if (!Number.isSafeInteger(value)) return `must be a whole number, not ${String(value)}`;
    const n = value as number;
    if (n < least) return `must be at least ${least}, not ${n}`;
    if (n > most) return `must be at most ${most}, not ${n}`;
    return undefined;
  };
}

export function matching(pattern: RegExp, rule: string): Check {
  return (value) => (pattern.test(value as string) ? undefined : `${JSON.stringify(value)} ${rule}`);
}

/** Limits the bytes of UTF-8, which upstream's columns count. */
export function longest(bytes: number): Check {
  return (value) => {
    const length = Buffer.byteLength(value as string);
    return length <= bytes ? undefined : `must be at most ${bytes} bytes, not ${length}`;
  };
}

/** Checks for a list of at least one item, each of which passes another check. Unknown items pass. */
export function someOf(check: Check): Check {
  return (value) => {
    if (!Array.isArray(value) || value.length === 0) return 'must have at least one item';
    for (const item of value) {
      if (isUnknown(item)) continue;
      const said = item === null ? 'must not contain null' : check(item);
      if (said !== undefined) return said;
    }
    return undefined;
  };
}

export const notEmpty: Check = (value) => (value === '' ? 'must not be empty' : undefined);

/** Checks the URL or path of an icon. It may be empty. */
export const address: Check = (value) => {
  const problem = goUrlProblem(value as string);
  return problem && `${JSON.stringify(value)} ${problem}`;
};

export const uuid: Check = matching(
  /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i,
  'must be a UUID, for example the id of a coder_app',
);

export function every(...checks: Check[]): Check {
  return (value) => {
    for (const check of checks) {
      const said = check(value);
      if (said !== undefined) return said;
    }
    return undefined;
  };
}
