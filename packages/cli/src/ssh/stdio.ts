import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError } from '@ropewalk/kit/errors';
import type { Io } from '../framework/io.ts';
import { rejectionOf } from '../lib/end-of-stream.ts';
import { HostKeyGate } from './host-key-gate.ts';

/**
 * Forwards an SSH connection between stdin and stdout and the agent until either side ends. The SSH client that started
 * this process does not know the agent's host key, so that this function checks it.
 * @param hostKey base64 of the expected host key. Undefined if the stream itself ends at the right agent.
 * @param whyOver called when the agent's side ended first.
 * @throws AppError for another host key or an unknown one, ApiError when the server ends the tunnel, or the result of whyOver.
 */
export async function forwardStdio(
  io: Io,
  stream: Duplex,
  hostKey: string | undefined,
  whyOver: () => Promise<Error | undefined> = async () => undefined,
): Promise<void> {
  if (hostKey === '') {
    stream.destroy();
    throw new AppError(
      'unavailable',
      "The server has no SSH host key for the workspace's agent. Restart the workspace to get this server's agent.",
    );
  }
  // the SSH client closes stdin when it is done
  void pipeline(io.stdin, stream).catch(() => {});
  try {
    if (hostKey === undefined) await pipeline(stream, io.stdout, { end: false });
    else await pipeline(stream, new HostKeyGate(hostKey), io.stdout, { end: false });
  } catch (err) {
    // the SSH client itself reports a broken connection
    if (err instanceof AppError || rejectionOf(err)) throw err;
  }
  // before this process ends, which is what the SSH client notices
  const why = io.stdin.readableEnded ? undefined : await whyOver();
  if (why) throw why;
}
