/**
 * The value of an environment variable that several `coder_env` resources set. Returns undefined if `strategy` allows no
 * earlier value and there is one. Lists join like PATH, and an empty earlier value joins nothing.
 * Source: the provider's attribute `merge_strategy` (replace, append, prepend, error).
 */
export function mergeEnvValue(earlier: string | undefined, value: string, strategy: string): string | undefined {
  switch (strategy) {
    case 'append':
      return earlier ? `${earlier}:${value}` : value;
    case 'prepend':
      return earlier ? `${value}:${earlier}` : value;
    case 'error':
      return earlier === undefined ? value : undefined;
    default:
      return value;
  }
}
