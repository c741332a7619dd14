import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

/** Formats a text for one output: with escape sequences in a terminal, unchanged elsewhere. */
export type Style = (format: Format, text: string) => string;

export const plainStyle: Style = (_, text) => text;

/** Whether an output shows escape sequences. NO_COLOR (https://no-color.org) and TERM=dumb turn them off. */
export function isStyled(output: { isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  return output.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
}

export function styleOf(output: { isTTY?: boolean }, env: NodeJS.ProcessEnv): Style {
  // the check of node:util looks at the process's own environment
  return isStyled(output, env) ? (format, text) => styleText(format, text, { validateStream: false }) : plainStyle;
}

/** The most columns of text to use: those of a terminal, or 80. */
export function widthOf(output: { isTTY?: boolean; columns?: number }): number {
  return (output.isTTY && output.columns) || 80;
}
