import { AppError } from '@ropewalk/kit';

const UNITS: [name: string, bytes: number][] = [
  ['TiB', 2 ** 40],
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
  ['B', 1],
];

/** A size for people: `1.5 GiB`. */
export function bytesText(bytes: number): string {
  const [name, size] = UNITS.find(([, unit]) => bytes >= unit) ?? ['B', 1];
  return `${Number((bytes / size).toFixed(1))} ${name}`;
}

/** Reads a size such as `20GiB`, `500 MB` or `1024`. Decimal units count as binary ones. @throws AppError `invalid`. */
export function parseBytes(flag: string, text: string): number {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])i?b?|b)?\s*$/i.exec(text);
  const power = match ? 'kmgt'.indexOf(match[2]?.toLowerCase() ?? '') + 1 : 0;
  if (!match) throw new AppError('invalid', `Invalid ${flag} ${JSON.stringify(text)}: write it as 500MiB or 20GiB.`);
  return Math.round(Number(match[1]) * 1024 ** (match[2] ? power : 0));
}
