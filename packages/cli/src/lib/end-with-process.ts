import type { Duplex } from 'node:stream';

const SIGNALS = { SIGHUP: 1, SIGTERM: 15 } as const;
/** For the last bytes to reach the kernel. */
const FLUSH_MS = 50;

/**
 * Says good-bye on a stream when the process is told to end, as by a closed window: without that the other end would
 * keep the session for who has lost only the connection.
 */
export function endWithProcess(stream: Duplex): void {
  const off = Object.entries(SIGNALS).map(([name, number]) => {
    const listener = () => {
      stream.destroy();
      setTimeout(() => process.exit(128 + number), FLUSH_MS);
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  stream.once('close', () => {
    for (const each of off) each();
  });
}
