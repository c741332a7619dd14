import { AppError } from '@platform/kit/errors';
import type { Context } from '../framework/context.ts';
import { print } from '../framework/io.ts';

/** A table's columns by published name. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => string>>;

export interface TableValues {
  column: string[];
  output: string;
}

/** Prints rows as the flags say: a table of the chosen columns, or the JSON models as they came. */
export function printRows<Row>(ctx: Context, flags: TableValues, columns: Columns<Row>, rows: readonly Row[]): void {
  if (flags.output === 'json') {
    print(ctx.io, JSON.stringify(rows, null, 2));
    return;
  }
  print(ctx.io, table(flags.column, columns, rows));
}

export function table<Row>(chosen: readonly string[], columns: Columns<Row>, rows: readonly Row[]): string {
  const names = Object.keys(columns);
  const picked = chosen.map((text) => {
    const name = names.find((one) => one.toLowerCase() === text.trim().toLowerCase());
    if (name === undefined) {
      throw new AppError('invalid', `Unknown column ${JSON.stringify(text)}: choose from ${names.join(', ')}.`);
    }
    return name;
  });
  return layOut([
    picked.map((name) => name.toUpperCase()),
    ...rows.map((row) => picked.map((name) => columns[name]!(row))),
  ]);
}

/** Cells in columns, two spaces apart. */
export function layOut(lines: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  const cells = lines.map((line) => line.map((cell) => cell.replace(/\s*\n\s*/g, ' ')));
  for (const line of cells) for (const [i, cell] of line.entries()) widths[i] = Math.max(widths[i] ?? 0, width(cell));
  return cells
    .map((line) =>
      line
        .map((cell, i) => cell + ' '.repeat(widths[i]! - width(cell)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

const width = (text: string) => [...text].length;
