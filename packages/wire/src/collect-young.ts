import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options: { type: 'minor' }) => void;

/**
 * The bytes between two collections: well below the 64 MiB of memory outside the heap at which V8 marks the whole heap.
 */
const EVERY_BYTES = 4 * 1024 * 1024;
let carried = 0;
let collect: Collect | undefined;

/**
 * Counts bytes that passed a socket, and makes V8 collect its young objects every few megabytes. Each read allocates a
 * 64 KiB buffer outside the heap and almost nothing inside it. The heap's young half would fill only after hundreds of
 * megabytes, so V8 marks the whole heap instead, every 64 MiB, which took 40 % of a relay's time. A young collection
 * takes less than a millisecond.
 */
export function countCarried(bytes: number): void {
  carried += bytes;
  if (carried < EVERY_BYTES) return;
  carried = 0;
  collect ??= exposed();
  collect({ type: 'minor' });
}

function exposed(): Collect {
  // Collections this small finish before helper threads have woken up. With helpers they would wait for delayed
  // threads.
  setFlagsFromString('--no-parallel-scavenge');
  setFlagsFromString('--expose-gc');
  const found = runInNewContext('gc') as Collect | undefined;
  setFlagsFromString('--no-expose-gc');
  return found ?? (() => {});
}
