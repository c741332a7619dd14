import type { Db } from '../connect.ts';

/** A row with tokens of a provider. */
export interface Written {
  /** `updated_at` exactly: another value means other tokens. A new key of the vault leaves it as it is. */
  written: string;
}

/** The column of `Written`. */
export const WRITTEN = (db: Db) => db`extract(epoch FROM updated_at)::text AS written`;

/** Whether the row still has the tokens that were read. */
export const unchanged = (db: Db, { written }: Written) =>
  db`extract(epoch FROM updated_at) = ${written}::text::numeric`;
