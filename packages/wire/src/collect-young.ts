import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options: { type: 'minor' }) => void;

/** Between two collections: well below the 64 MiB of memory outside the heap at which V8 marks the whole heap. */
const EVERY_BYTES = 4 * 1024 * 1024;
let carried = 0;
let collect: Collect | undefined;

/**
 * Counts bytes that passed a socket, and has V8 collect its young objects every few megabytes. Each read makes a 64 KiB
 * buffer outside the heap and next to nothing in it: the heap's young half would take hundreds of megabytes of them to
 * fill, so V8 marks the whole heap instead, every 64 MiB, which took 40 % of the time of a relay. A young collection
 * costs less than a millisecond.
 */
export function countCarried(bytes: number): void {
  carried += bytes;
  if (carried < EVERY_BYTES) return;
  carried = 0;
  collect ??= exposed();
  collect({ type: 'minor' });
}

function exposed(): Collect {
  // collections this small are over before helping threads have woken up, and wait for those that others keep waiting
  setFlagsFromString('--no-parallel-scavenge');
  setFlagsFromString('--expose-gc');
  const found = runInNewContext('gc') as Collect | undefined;
  setFlagsFromString('--no-expose-gc');
  return found ?? (() => {});
}
