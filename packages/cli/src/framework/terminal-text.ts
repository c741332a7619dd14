import { visible } from '@platform/kit/visible';

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

/** A line of a log for `terminalText`: keeps its colors, which end with the line. */
export function logText(line: string): string {
  if (!line.includes(ESCAPE)) return line;
  const own = line.replaceAll(SGR, (_, codes: string) => markOwn(`${ESCAPE}[${codes}m`));
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
