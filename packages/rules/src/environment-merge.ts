/**
 * Returns the value of an environment variable that several `coder_env` of one agent set: `append` and `prepend` join
 * with a colon, as in PATH, except for an empty value. Any other strategy replaces the earlier value. Undefined: the
 * strategy `error` rejects a second value.
 */
export function mergedVariable(before: string | undefined, value: string, strategy: string): string | undefined {
  if (before === undefined) return value;
  if (strategy === 'error') return undefined;
  if (before !== '' && strategy === 'append') return `${before}:${value}`;
  if (before !== '' && strategy === 'prepend') return `${value}:${before}`;
  return value;
}
