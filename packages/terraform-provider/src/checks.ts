import { goUrlProblem } from './go-url.ts';
import type { Check } from './schema.ts';
import type { Value } from './value.ts';

/** Membership in a closed set of strings. */
export function oneOf(...allowed: string[]): Check {
  return (value) =>
    allowed.includes(value as string)
      ? undefined
      : `must be one of ${allowed.map((a) => JSON.stringify(a)).join(', ')}, not ${JSON.stringify(value)}`;
}

/** A whole number within limits; Terraform itself knows only "number". */
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

/** In bytes of UTF-8, as the published columns count. */
export function longest(bytes: number): Check {
  return (value) => {
    const length = Buffer.byteLength(value as string);
    return length <= bytes ? undefined : `must be at most ${bytes} bytes, not ${length}`;
  };
}

export const notEmpty: Check = (value) => (value === '' ? 'must not be empty' : undefined);

/** A URL or a path, as icons are given; empty is allowed. */
export const address: Check = (value) => {
  const problem = goUrlProblem(value as string);
  return problem && `${JSON.stringify(value)} ${problem}`;
};

export const uuid: Check = matching(
  /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i,
  'must be a UUID, such as the id of a coder_app',
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
