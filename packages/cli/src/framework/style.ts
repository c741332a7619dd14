import { styleText } from 'node:util';
import { markOwn } from './terminal-text.ts';

type Format = Parameters<typeof styleText>[0];

/** Formats a text for one output: with escape sequences in a terminal, unchanged elsewhere. `print` and `note` keep them. */
export type Style = (format: Format, text: string) => string;

export const plainStyle: Style = (_, text) => text;

/** Whether an output is a terminal that shows symbols and moves its cursor. */
export function isTerminal(output: { isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  return output.isTTY === true && env['TERM'] !== 'dumb';
}

/** Marks the sequences around the text, not what is in it. */
function styled(format: Format, text: string): string {
  const [before, after] = styleText(format, '\n', { validateStream: false }).split('\n');
  return `${markOwn(before!)}${text}${markOwn(after!)}`;
}

export function styleOf(output: { isTTY?: boolean }, env: NodeJS.ProcessEnv): Style {
  // https://no-color.org; the check of node:util reads the environment of the process instead of this one
  return isTerminal(output, env) && !env['NO_COLOR'] ? (format, text) => styled(format, text) : plainStyle;
}

/** The maximum number of columns of text to use: those of a terminal, or 80. */
export function widthOf(output: { isTTY?: boolean; columns?: number }): number {
  return (output.isTTY && output.columns) || 80;
}
