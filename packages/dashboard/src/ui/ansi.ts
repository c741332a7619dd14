import type { Tone } from './classes.ts';

/** A part of a line with one look. */
export interface AnsiPart {
  text: string;
  tone?: Tone;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
}

type Look = Omit<AnsiPart, 'text'>;

const ESCAPE = '\u001b';
const BELL = '\u0007';
// a sequence with parameters, an operating system command up to its end, or any other escape
const SEQUENCE = new RegExp(
  `${ESCAPE}\\[([0-9;:?]*)[ -/]*([@-~])|${ESCAPE}\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?|${ESCAPE}[ -/]*[0-~]?`,
  'g',
);
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it removes
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** Red, green, yellow, blue, magenta and cyan as the theme's own colors, which are readable in both themes. */
const TONES: readonly (Tone | undefined)[] = [undefined, 'bad', 'good', 'warn', 'busy', 'accent', 'busy', undefined];

/** The part of a line that a terminal would show: a carriage return starts the line again. */
export function lastOverwrite(line: string): string {
  if (!line.includes('\r')) return line;
  const parts = line.split('\r').filter((part) => part !== '');
  return parts.at(-1) ?? '';
}

/** A line without colors and control characters. */
export const plainText = (line: string): string =>
  line.includes(ESCAPE) || line.search(CONTROL) >= 0
    ? lastOverwrite(line).replaceAll(SEQUENCE, '').replaceAll(CONTROL, '')
    : lastOverwrite(line);

/** The parts of a line by their look. Escape sequences that do more than color text are left out. */
export function ansiParts(line: string): AnsiPart[] {
  const text = lastOverwrite(line);
  if (!text.includes(ESCAPE)) return [{ text: text.replaceAll(CONTROL, '') }];
  const parts: AnsiPart[] = [];
  let look: Look = {};
  let at = 0;
  const push = (to: number) => {
    const piece = text.slice(at, to).replaceAll(CONTROL, '');
    if (piece !== '') parts.push({ text: piece, ...look });
  };
  for (const found of text.matchAll(SEQUENCE)) {
    push(found.index);
    at = found.index + found[0].length;
    if (found[2] === 'm') look = nextLook(look, found[1] ?? '');
  }
  push(text.length);
  return parts;
}

function nextLook(look: Look, parameters: string): Look {
  const codes = parameters.split(/[;:]/).map(Number);
  let next = { ...look };
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) {
      delete next.bold;
      delete next.dim;
    } else if (code === 23) delete next.italic;
    else if (code === 24) delete next.underline;
    else if (code === 39) delete next.tone;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) setTone(next, TONES[code % 10]);
    else if (code === 38 || code === 48) {
      const [tone, length] = extendedTone(codes.slice(at + 1));
      if (code === 38) setTone(next, tone);
      at += length;
    }
  }
  return next;
}

function setTone(look: Look, tone: Tone | undefined): void {
  if (tone) look.tone = tone;
  else delete look.tone;
}

/** A color of 256, or of three numbers, as the nearest of ours, and how many numbers it took. */
function extendedTone(rest: readonly number[]): [Tone | undefined, number] {
  if (rest[0] === 5) {
    const index = rest[1] ?? 0;
    if (index < 16) return [TONES[index % 8], 2];
    if (index > 231) return [undefined, 2];
    const cube = index - 16;
    return [nearestTone(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51), 2];
  }
  if (rest[0] === 2) return [nearestTone(rest[1] ?? 0, rest[2] ?? 0, rest[3] ?? 0), 4];
  return [undefined, 0];
}

function nearestTone(red: number, green: number, blue: number): Tone | undefined {
  const most = Math.max(red, green, blue);
  const range = most - Math.min(red, green, blue);
  if (range < 48) return undefined;
  const hue =
    most === red
      ? ((green - blue) / range + 6) % 6
      : most === green
        ? (blue - red) / range + 2
        : (red - green) / range + 4;
  return (['bad', 'warn', 'good', 'busy', 'busy', 'accent'] as const)[Math.round(hue) % 6];
}
