import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { note, print } from '../framework/io.ts';
import { styleOf, widthOf } from '../framework/style.ts';
import { type Layout, layOutTable, type TableColumn } from './table.ts';

/** The columns of a table by upstream name. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => string>>;

export interface TableValues {
  column: string[];
  output: string;
}

/** Names and IDs stay whole: people copy them. */
const WHOLE = /^(id|name|username|email|workspace|resource|access)$|(^| )id$/;
const STATUS = /(^| )status$/;

/** How tables look on this command's standard output. */
export function layoutOf(ctx: Context): Layout {
  const { stdout } = ctx.io;
  return {
    width: stdout.isTTY ? widthOf(stdout) : undefined,
    style: styleOf(stdout, ctx.env),
    chosen: ctx.isSet('column'),
  };
}

export function columnOf(name: string): TableColumn {
  return { title: name.toUpperCase(), whole: WHOLE.test(name.toLowerCase()), status: STATUS.test(name.toLowerCase()) };
}

/**
 * Prints rows as `--output` and `--column` say: a table of the chosen columns, or JSON. JSON contains the objects of the API.
 * If the JSON of upstream's command has another form, `asJson` creates that form.
 */
export function printRows<Row>(
  ctx: Context,
  flags: TableValues,
  columns: Columns<Row>,
  rows: readonly Row[],
  asJson: (row: Row) => unknown = (row) => row,
): void {
  if (flags.output === 'json') print(ctx.io, JSON.stringify(rows.map(asJson), null, 2));
  else printTable(ctx, flags.column, columns, rows);
}

export function printTable<Row>(
  ctx: Context,
  chosen: readonly string[],
  columns: Columns<Row>,
  rows: readonly Row[],
): void {
  const names = Object.keys(columns);
  const picked = chosen.map((text) => {
    const name = names.find((one) => one.toLowerCase() === text.trim().toLowerCase());
    if (name === undefined) {
      throw new AppError('invalid', `Unknown column ${JSON.stringify(text)}. Available: ${names.join(', ')}.`);
    }
    return name;
  });
  const cells = rows.map((row) => picked.map((name) => columns[name]!(row)));
  const { text, hidden } = layOutTable(picked.map(columnOf), cells, layoutOf(ctx));
  print(ctx.io, text);
  if (hidden.length === 0) return;
  const style = styleOf(ctx.io.stderr, ctx.env);
  note(ctx.io, style('dim', `Not shown: ${hidden.join(', ')}. Use --column to choose.`));
}
