import type { Db } from './connect.ts';

/** A comparison with ids. One id is compared with `=`, so that an index gives the rows in the order of the list. */
export const oneOf = (db: Db, ids: string[]) =>
  ids.length === 1 ? db`= ${ids[0]!}::uuid` : db`= ANY (${ids}::text[]::uuid[])`;
