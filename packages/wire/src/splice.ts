import type { Duplex } from 'node:stream';

export interface SpliceResult {
  aToB: number;
  bToA: number;
}

/**
 * Joins two streams both ways, with back-pressure and half-close: the end of one direction is passed on while the
 * other goes on. Resolves with the bytes carried when both are closed. When either breaks, the other is destroyed and
 * the promise rejects with the error. Payload is neither looked at nor copied.
 */
export function splice(a: Duplex, b: Duplex): Promise<SpliceResult> {
  return new Promise((resolve, reject) => {
    const result: SpliceResult = { aToB: 0, bToA: 0 };
    let failure: Error | undefined;
    let open = 2;
    const carry = (from: Duplex, to: Duplex, count: 'aToB' | 'bToA') => {
      let ended = false;
      from.on('data', (chunk: Buffer) => {
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
