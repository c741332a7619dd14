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

export function longest(chars: number): Check {
  return (value) =>
    (value as string).length <= chars
      ? undefined
      : `must be at most ${chars} characters, not ${(value as string).length}`;
}

export const notBlank: Check = (value) => ((value as string).trim() === '' ? 'must not be empty' : undefined);

/** A URL or a path on the deployment, as icons are given; empty is allowed. */
export const iconUrl: Check = (value) => {
  const text = value as string;
  return URL.canParse(text, 'http://localhost/') && !/\s/.test(text) ? undefined : `${JSON.stringify(text)} is no URL`;
};

export const webUrl: Check = (value) => {
  const text = value as string;
  if (text === '') return undefined;
  if (!URL.canParse(text)) return `${JSON.stringify(text)} is no URL`;
  return /^https?:$/.test(new URL(text).protocol) ? undefined : 'must be an http or https URL';
};

export function every(...checks: Check[]): Check {
  return (value) => {
    for (const check of checks) {
      const said = check(value);
      if (said !== undefined) return said;
    }
    return undefined;
  };
}
