import type { Duplex } from 'node:stream';

const SIGNALS = { SIGHUP: 1, SIGTERM: 15 } as const;
/** For the last bytes to reach the kernel. */
const FLUSH_MS = 50;

/**
 * Runs a session over a stream. When the process is told to end, as by a closed window, says good-bye on the stream:
 * without that the other end would keep the session for who has lost only the connection. The exit code is then that
 * of the signal, whatever becomes of the session.
 */
export async function endWithProcess(stream: Duplex, session: () => Promise<number>): Promise<number> {
  const told = Promise.withResolvers<number>();
  let isTold = false;
  const off = Object.entries(SIGNALS).map(([name, number]) => {
    const listener = () => {
      isTold = true;
      stream.destroy();
      setTimeout(() => told.resolve(128 + number), FLUSH_MS);
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  try {
    const outcome = session();
    await Promise.race([outcome.catch(() => {}), told.promise]);
    return await (isTold ? told.promise : outcome);
  } finally {
    for (const each of off) each();
  }
}
