import type { Ctx } from '../context/context.ts';
import { inTurn } from './turns.ts';

const ROWS_OF_PART = 1_000;

/**
 * All rows that `after` finds, in converted parts. `after` returns the next `count` rows after a row. The exports of one
 * person take turns with each part: many at a time would keep the few connections for lists from others.
 */
export async function* exportParts<Row, Out>(
  { actor }: Pick<Ctx, 'actor'>,
  after: (last: Row | undefined, count: number) => Promise<readonly Row[]>,
  convert: (rows: readonly Row[]) => Promise<Out[]>,
): AsyncGenerator<Out[]> {
  const read = async (last: Row | undefined) => {
    const rows = await after(last, ROWS_OF_PART);
    return { rows, part: rows.length > 0 ? await convert(rows) : [] };
  };
  for (let last: Row | undefined; ; ) {
    const from = last;
    const { rows, part } = await inTurn(`export of ${actor.kind === 'user' ? actor.id : ''}`, () => read(from));
    if (rows.length > 0) yield part;
    last = rows.at(-1);
    if (!last || rows.length < ROWS_OF_PART) return;
  }
}
