import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError } from '@platform/kit/errors';
import type { Io } from '../framework/io.ts';
import { refusalOf } from '../lib/end-of-stream.ts';
import { HostKeyGate } from './host-key-gate.ts';

/**
 * Carries an SSH connection between stdin and stdout and the agent until either side ends. The SSH client that started
 * this has no way to know the agent's host key, so that the key is checked here, in passing.
 * @param hostKey base64 of the only host key that is accepted.
 * @param whyOver asked where the agent's side ended first.
 * @throws AppError where the agent has another host key, or none is known; ApiError where the server ends it; what whyOver says.
 */
export async function carry(
  io: Io,
  stream: Duplex,
  hostKey: string,
  whyOver: () => Promise<Error | undefined> = async () => undefined,
): Promise<void> {
  if (hostKey === '') {
    stream.destroy();
    throw new AppError('unavailable', "The server does not know the SSH host key of the workspace's agent.");
  }
  // whoever starts `coder ssh --stdio` closes stdin when it is done
  void pipeline(io.stdin, stream).catch(() => {});
  try {
    await pipeline(stream, new HostKeyGate(hostKey), io.stdout, { end: false });
  } catch (err) {
    // a connection that breaks off is for the SSH client to tell
    if (err instanceof AppError || refusalOf(err)) throw err;
  }
  // the SSH client sees the end when this process ends, so that it is told before
  const why = io.stdin.readableEnded ? undefined : await whyOver();
  if (why) throw why;
}
