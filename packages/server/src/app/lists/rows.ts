import { errorText, type Logger } from '@ropewalk/kit';

/**
 * Converts the rows of a list. A row that cannot be converted is left out and logged, so that it does not break the
 * list for every reader.
 */
export function convertRows<R extends { id: string }, T>(log: Logger, rows: readonly R[], convert: (row: R) => T): T[] {
  return rows.flatMap((row) => {
    try {
      return [convert(row)];
    } catch (err) {
      log.error('a list omitted a row that cannot be converted', { id: row.id, err: errorText(err) });
      return [];
    }
  });
}
