import type { Duplex } from 'node:stream';

const SIGNALS = { SIGHUP: 1, SIGTERM: 15 } as const;
/** Time for the last bytes to reach the kernel. */
const FLUSH_MS = 50;

/**
 * Runs a session over a stream, then what ends its reports. A signal that ends the process closes the stream properly
 * first: otherwise the other end would keep the session open for a client that resumes it. The exit code is then that of
 * the signal.
 * @param stops called when the session has ended. A signal does not interrupt them.
 */
export async function endWithProcess(
  stream: Duplex,
  stops: (() => unknown)[],
  session: () => Promise<number>,
): Promise<number> {
  const ended = Promise.withResolvers<number>();
  let isEnded = false;
  const off = Object.entries(SIGNALS).map(([name, number]) => {
    const listener = () => {
      isEnded = true;
      stream.destroy();
      setTimeout(() => ended.resolve(128 + number), FLUSH_MS);
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  try {
    const outcome = session();
    await Promise.race([outcome.catch(() => {}), ended.promise]);
    return await (isEnded ? ended.promise : outcome);
  } finally {
    await Promise.all(stops.map((stop) => stop()));
    // OpenSSH closes stdin and sends SIGHUP immediately: the caller writes its last lines first
    setImmediate(() => {
      for (const each of off) each();
    });
  }
}
