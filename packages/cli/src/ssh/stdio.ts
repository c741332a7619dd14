import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Io } from '../framework/io.ts';

/** Carries bytes between stdin and stdout and a stream until either side ends. */
export async function carry(io: Io, stream: Duplex): Promise<void> {
  const ended = new Promise<void>((resolve) => stream.once('close', resolve));
  // whoever starts `coder ssh --stdio` closes stdin when it is done
  void pipeline(io.stdin, stream).catch(() => {});
  await Promise.race([pipeline(stream, io.stdout, { end: false }).catch(() => {}), ended]);
}
