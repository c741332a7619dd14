import type { Sql } from '@ropewalk/server/db/connect';
import { eventually } from './harness.ts';

/** Any number that no lock of the server has. */
const KEY = 27;

export interface HeldStatement {
  /** Resolves when a statement waits. */
  waits(): Promise<true>;
  /** Lets it go on, and later ones too. */
  go(): Promise<void>;
}

/** Lets statements wait that change a row of this table in this way. `sql` needs two connections. */
export async function heldStatement(sql: Sql, table: string, condition: string): Promise<HeldStatement> {
  await sql.unsafe(`CREATE OR REPLACE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM pg_advisory_xact_lock_shared(${KEY}); RETURN NEW; END $$;
    CREATE TRIGGER held BEFORE UPDATE ON ${table} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION held()`);
  const release = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const lock = sql.begin(async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${KEY})`;
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  return {
    waits: () =>
      eventually('a statement waits', async () => {
        const [row] = await sql<{ n: number }[]>`SELECT count(*)::int AS n FROM pg_locks
          WHERE locktype = 'advisory' AND objid = ${KEY} AND NOT granted`;
        return row!.n > 0;
      }),
    async go() {
      release.resolve();
      await lock;
      await sql.unsafe(`SET client_min_messages = error; DROP TRIGGER IF EXISTS held ON ${table}`);
    },
  };
}
