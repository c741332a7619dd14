import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { connect, type Sql } from '../db/connect.ts';

const SERVER_LOCK = 0x73657276;
/** How often a server looks whether it still has the lock. Also keeps the connection in use, which closes otherwise. */
const LOOK_MS = 2_000;
/** How long PostgreSQL may take to release the lock of a killed server. */
const RELEASE_MS = 3_000;

export interface ServerLock {
  /** Whether another server has taken the lock, after the connection of this one was lost. */
  isTaken(): boolean;
  release(): Promise<void>;
}

/**
 * Takes the lock of the one server that uses a bundled database. It ends with this server's connection, even after a
 * crash. When only the connection is lost, the server takes the lock again.
 * @throws AppError `conflict` if another server has it
 */
export async function holdServerLock(url: string, data: string, log: Logger): Promise<ServerLock> {
  const sql = connect(url, { max: 1, applicationName: 'coderd-lock' });
  const deadline = performance.now() + RELEASE_MS;
  while (!(await take(sql))) {
    if (performance.now() > deadline) {
      await sql.end({ timeout: 1 });
      throw new AppError(
        'conflict',
        `Another server uses the database in ${data}. Stop it, or choose another CODER_CONFIG_DIR.`,
      );
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  let taken = false;
  let looking = false;
  const look = async () => {
    if (looking) return;
    looking = true;
    try {
      const held = await take(sql);
      if (held === !taken) return;
      taken = !held;
      if (held) log.info('the other server has released the database');
      else log.error('another server has begun to use the same bundled database. Stop one of them', { data });
    } catch (err) {
      // the database restarts
      log.debug('cannot look at the lock of the bundled database', { err: errorText(err) });
    } finally {
      looking = false;
    }
  };
  const timer = setInterval(look, LOOK_MS).unref();
  return {
    isTaken: () => taken,
    async release() {
      clearInterval(timer);
      await sql.end({ timeout: 1 });
    },
  };
}

/** Takes the lock unless this connection has it. */
async function take(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ held: boolean }[]>`SELECT CASE
    WHEN EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND granted) THEN true
    ELSE pg_try_advisory_lock(${SERVER_LOCK}) END AS held`;
  return row!.held;
}
