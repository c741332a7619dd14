import { visible } from '@ropewalk/kit/visible';

/**
 * What this program writes to a terminal consists of its words and styles, and of texts that come from the server, a
 * template or a workspace. Those texts may hold escape sequences that set the title, write the clipboard or hide other
 * text. So everything that is printed counts as foreign, with two exceptions that carry a mark: the styles of `styleOf`,
 * and the colors of log lines. The mark is random, so that no text can contain it.
 */
let mark: string | undefined;
const ownMark = () => {
  mark ??= crypto.randomUUID();
  return mark;
};

const ESCAPE = '\u001b';
/** Colors and weights. Everything else that begins with an escape character moves the cursor or controls the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the sequences to find
const SGR = /\u001b\[([\d;:]*)m/g;

/** Marks the escape sequences of a text as this program's own, so that `terminalText` keeps them. */
export function markOwn(text: string): string {
  return text.replaceAll(ESCAPE, `${ESCAPE}${ownMark()}`);
}

/**
 * Whether a style hides its text: "concealed" (8) is one of its codes, and not a part of a color such as `38;5;8`, gray.
 */
const conceals = (codes: string): boolean =>
  codes.split(/[;:]/).some((code, at, all) => Number(code) === 8 && !isColor(all, at));

/** Whether the code at a place is a part of an extended color: `38;5;n` and `38;2;r;g;b`, with 38, 48 or 58. */
function isColor(codes: readonly string[], at: number): boolean {
  for (let i = 0; i < at; i++) {
    if (!/^(?:38|48|58)$/.test(codes[i]!)) continue;
    const length = codes[i + 1] === '5' ? 2 : codes[i + 1] === '2' ? 4 : 0;
    if (at <= i + length) return at > i + 1;
    i += length;
  }
  return false;
}

/** A line of a log for `terminalText`: keeps its colors, which end with the line. A style that hides text becomes visible. */
export function logText(line: string): string {
  if (!line.includes(ESCAPE)) return line;
  const own = line.replaceAll(SGR, (found, codes: string) => (conceals(codes) ? found : markOwn(found)));
  return own === line ? line : own + markOwn(`${ESCAPE}[0m`);
}

/**
 * What may go to a terminal of a text: everything that acts on the terminal, or that hides, becomes visible, except line
 * breaks, tabs, and styles with the mark. JSON stays the same value.
 */
export function terminalText(text: string): string {
  const shown = visible(text.includes('\r\n') ? text.replaceAll('\r\n', '\n') : text, '\n\t');
  return mark === undefined ? shown : shown.replaceAll(`\\u001b${mark}`, ESCAPE);
}

/** A foreign text for one line: a name, a cell of a table, a stage. */
export function oneLine(text: string): string {
  return terminalText(text.replace(/\s*\n\s*|\t/g, ' '));
}
