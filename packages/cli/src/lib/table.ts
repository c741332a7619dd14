import { ownValue } from '@ropewalk/kit/own-value';
import { plainStyle, type Style } from '../framework/style.ts';
import { oneLine } from '../framework/terminal-text.ts';
import { ago } from './format.ts';

/** A column keeps room for its title, within these bounds. */
const LEAST_WIDTH = 8;
const MAX_TITLE_WIDTH = 12;
/** The columns to leave out first, before those at the right. */
const LEFT_OUT_FIRST = ['TAGS', 'TYPE', 'CURRENT VERSION', 'VERSION', 'CREATED AT'];
/** The columns that the user has asked for stay, in a narrow terminal with less. */
const LEAST_CHOSEN_WIDTH = 4;
const GAP = 2;
const ASCII = /^[\x20-\x7e]*$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

const COLORS: Readonly<Record<string, Parameters<Style>[0]>> = Object.fromEntries(
  Object.entries({
    green: 'running started connected ready active succeeded healthy idle',
    red: 'failed unhealthy timeout',
    yellow: 'pending queued starting stopping canceling deleting busy connecting disconnected created outdated unknown',
    dim: 'stopped offline canceled deleted dormant suspended off',
  }).flatMap(([color, words]) => words.split(' ').map((word) => [word, color as 'green'])),
);

export interface TableColumn {
  title: string;
  /** Keep the whole text: it is a name or an ID that people copy. */
  whole?: boolean;
  /** The cells are words for a status, which have colors. */
  status?: boolean;
}

export interface Layout {
  /** The columns of the terminal. Undefined for pipes and files, which get every cell unchanged. */
  width: number | undefined;
  style: Style;
  /** Whether the user has named the columns, so that none of them may be left out. */
  chosen: boolean;
}

/** The layout for pipes and files. */
export const PLAIN_LAYOUT: Layout = { width: undefined, style: plainStyle, chosen: true };

/** How far a text reaches in a terminal. */
export const textWidth = (text: string) => (ASCII.test(text) ? text.length : [...text].length);

export function shorten(text: string, most: number): string {
  return textWidth(text) <= most ? text : `${[...text].slice(0, Math.max(0, most - 1)).join('')}…`;
}

/**
 * Lays out a table. In a terminal that is too narrow for it, times become relative, then the widest cells are shortened,
 * then whole columns are left out. `hidden` names them.
 */
export function layOutTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  layout: Layout,
): { text: string; hidden: string[] } {
  let lines = [columns.map(({ title }) => title), ...rows.map((row) => row.map(oneLine))];
  let shown = columns.map((_, i) => i);
  let widths = widthsOf(lines, columns.length);
  const { width: most } = layout;
  if (most !== undefined && total(widths) > most) {
    lines = lines.map((line) => line.map((cell) => (TIMESTAMP.test(cell) ? ago(cell) : cell)));
    widths = widthsOf(lines, columns.length);
    const isWhole = (i: number) => columns[i]!.whole === true || columns[i]!.status === true;
    const leastOf = (i: number) => {
      if (isWhole(i)) return widths[i]!;
      const title = Math.min(MAX_TITLE_WIDTH, columns[i]!.title.length);
      return Math.min(widths[i]!, layout.chosen ? LEAST_CHOSEN_WIDTH : Math.max(LEAST_WIDTH, title));
    };
    for (;;) {
      const fitted = shrink(
        shown.map((i) => ({ width: widths[i]!, least: leastOf(i) })),
        most,
      );
      const weak = shown.filter((i) => !isWhole(i));
      const first = LEFT_OUT_FIRST.map((title) => weak.find((i) => columns[i]!.title === title));
      const last = first.find((i) => i !== undefined) ?? weak.at(-1);
      if (total(fitted) <= most || layout.chosen || last === undefined) {
        for (const [at, i] of shown.entries()) widths[i] = fitted[at]!;
        break;
      }
      shown = shown.filter((i) => i !== last);
    }
  }
  const text = lines.map((line, row) =>
    shown
      .map((i) => {
        const cell = shorten(line[i] ?? '', widths[i]!);
        const padding = ' '.repeat(widths[i]! - textWidth(cell));
        return (row === 0 ? layout.style('bold', cell) : styled(cell, columns[i]!, layout.style)) + padding;
      })
      .join(' '.repeat(GAP))
      .trimEnd(),
  );
  return { text: text.join('\n'), hidden: columns.flatMap(({ title }, i) => (shown.includes(i) ? [] : [title])) };
}

function widthsOf(lines: readonly (readonly string[])[], count: number): number[] {
  return Array.from({ length: count }, (_, i) => Math.max(0, ...lines.map((line) => textWidth(line[i] ?? ''))));
}

const total = (widths: readonly number[]) => widths.reduce((sum, one) => sum + one, GAP * (widths.length - 1));

/** Takes columns from the widest ones until all fit, or all have their least width. */
function shrink(columns: readonly { width: number; least: number }[], most: number): number[] {
  const widths = columns.map(({ width }) => width);
  for (let excess = total(widths) - most; excess > 0; excess--) {
    let widest = -1;
    for (const [i, width] of widths.entries()) {
      if (width > columns[i]!.least && (widest < 0 || width > widths[widest]!)) widest = i;
    }
    if (widest < 0) break;
    widths[widest]!--;
  }
  return widths;
}

function styled(cell: string, column: TableColumn, style: Style): string {
  if (!column.status) return cell;
  const color = ownValue(COLORS, /^\w*/.exec(cell)![0].toLowerCase());
  return color ? style(color, cell) : cell;
}

/** Rows of cells in columns, without a heading. */
export function layOut(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(oneLine));
  const widths = widthsOf(cells, Math.max(0, ...cells.map((row) => row.length)));
  return cells
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i]! + cell.length - textWidth(cell)))
        .join(' '.repeat(GAP))
        .trimEnd(),
    )
    .join('\n');
}
