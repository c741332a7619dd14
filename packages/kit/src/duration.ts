import { AppError } from './errors.ts';
import { ownValue } from './own-value.ts';

const UNIT_MS: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7 };

/** Parses a duration such as `1h30m`, `500ms`, `90s` or `0` into milliseconds. `d` is a day of 24 h. */
export function parseDuration(text: string): number {
  const trimmed = text.trim();
  const sign = trimmed.startsWith('-') ? -1 : 1;
  const body = trimmed.replace(/^[-+]/, '');
  if (body === '0') return 0;
  let rest = body;
  let total = 0;
  while (rest !== '') {
    const part = /^(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)/.exec(rest);
    if (!part)
      throw new AppError('invalid', `Invalid duration ${JSON.stringify(text)}: use a form like 1h30m, 90s or 500ms.`);
    total += Number(part[1]) * ownValue(UNIT_MS, part[2]!)!;
    rest = rest.slice(part[0].length);
  }
  if (body === '') throw new AppError('invalid', 'Invalid duration "": use a form like 1h30m, 90s or 500ms.');
  return sign * total;
}

/** The canonical text of a duration: `1h30m0s`, `1.5s`, `250ms`, `0s`. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  const sign = ms < 0 ? '-' : '';
  const abs = Math.abs(ms);
  if (abs < 1000) return `${sign}${Number(abs.toFixed(3))}ms`;
  const hours = Math.floor(abs / 3.6e6);
  const minutes = Math.floor((abs % 3.6e6) / 6e4);
  const seconds = Number(((abs % 6e4) / 1000).toFixed(3));
  return `${sign}${hours ? `${hours}h` : ''}${hours || minutes ? `${minutes}m` : ''}${seconds}s`;
}
