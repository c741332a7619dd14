import { errorText, type Logger } from '@platform/kit';

/**
 * Converts the rows of a list. A row that cannot be converted is left out and logged, since one such row must not take
 * the list from everybody who reads it.
 */
export function convertRows<R extends { id: string }, T>(log: Logger, rows: readonly R[], convert: (row: R) => T): T[] {
  return rows.flatMap((row) => {
    try {
      return [convert(row)];
    } catch (err) {
      log.error('a list left out a row that cannot be read', { id: row.id, err: errorText(err) });
      return [];
    }
  });
}
