const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** The two largest units, such as `3d4h` or `5m20s`. `now` for less than a second. */
export function roughDuration(ms: number): string {
  const parts: string[] = [];
  let rest = Math.abs(ms);
  for (const [unit, size] of UNITS) {
    if (rest >= size || parts.length > 0) parts.push(`${Math.floor(rest / size)}${unit}`);
    rest %= size;
    if (parts.length === 2) break;
  }
  return parts.filter((part) => !part.startsWith('0')).join('') || 'now';
}

export function ago(time: string | undefined | null, now = Date.now()): string {
  if (!time) return '';
  const ms = now - Date.parse(time);
  return Math.abs(ms) < 1_000 ? 'now' : ms >= 0 ? `${roughDuration(ms)} ago` : `in ${roughDuration(ms)}`;
}

/** The duration of a stage: `240ms`, `1.8s`, `2m5s`. */
export function stageDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)}s`;
  return `${Math.floor(ms / 60_000)}m${Math.round((ms % 60_000) / 1_000)}s`;
}

/** In whole seconds, for a clock that runs: `7s`, `2m05s`, `1h02m`. */
export function elapsedTime(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  const two = (value: number) => String(value).padStart(2, '0');
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  return `${Math.floor(seconds / 3_600)}h${two(Math.floor((seconds % 3_600) / 60))}m`;
}

export function tagsText(tags: Readonly<Record<string, string>>): string {
  return `map[${Object.entries(tags)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}:${value}`)
    .join(' ')}]`;
}
