import type { Duplex } from 'node:stream';

export interface SpliceResult {
  aToB: number;
  bToA: number;
}

/** How long a side may take to end by itself after everything was written to it and nobody reads its answers, in ms. */
const LINGER_MS = 2_000;

/** Drops a stream after a delay: if dropped immediately, it may discard received bytes that were not read yet. */
function dropAfterFlush(stream: Duplex): void {
  stream.resume();
  let timer: NodeJS.Timeout | undefined;
  const linger = () => {
    timer = setTimeout(() => stream.destroy(), LINGER_MS).unref();
  };
  stream.once('close', () => clearTimeout(timer));
  if (stream.writableFinished) linger();
  else stream.once('finish', linger);
}

/**
 * Connects two streams both ways, with backpressure and half-close: the end of one direction is passed on while the
 * other continues. Resolves with the number of forwarded bytes when both are closed. When either breaks, the other is
 * destroyed and the promise rejects with the error. The payload is neither inspected nor copied.
 */
export function splice(a: Duplex, b: Duplex): Promise<SpliceResult> {
  return new Promise((resolve, reject) => {
    const result: SpliceResult = { aToB: 0, bToA: 0 };
    let failure: Error | undefined;
    let open = 2;
    const carry = (from: Duplex, to: Duplex, count: 'aToB' | 'bToA') => {
      let ended = false;
      from.on('data', (chunk: Buffer) => {
        if (to.destroyed) return;
        result[count] += chunk.length;
        if (!to.write(chunk)) from.pause();
      });
      to.on('drain', () => from.resume());
      from.on('end', () => {
        ended = true;
        to.end();
      });
      from.on('error', (err) => {
        failure ??= err;
        to.destroy(err);
      });
      from.on('close', () => {
        // Gone without an end or an error: the other side must not wait for more.
        if (!ended && !to.destroyed) to.destroy(failure);
        // Gone after its end: its bytes still go out, but nobody reads the other side's answers.
        else if (!to.readableEnded && !to.destroyed) dropAfterFlush(to);
        open--;
        if (open > 0) return;
        if (failure) reject(failure);
        else resolve(result);
      });
      if (from.closed || from.destroyed) {
        failure ??= from.errored ?? undefined;
        to.destroy(failure);
        if (from.closed) process.nextTick(() => from.emit('close'));
      }
    };
    carry(a, b, 'aToB');
    carry(b, a, 'bToA');
  });
}
