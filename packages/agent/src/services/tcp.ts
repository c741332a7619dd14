import { connect, type Socket } from 'node:net';
import { AppError } from '@ropewalk/kit';
import { countCarried } from '@ropewalk/wire/collect-young';
import { splice } from '@ropewalk/wire/splice';
import type { Activity } from '../activity.ts';
import type { Service } from './service.ts';

const CONNECT_TIMEOUT_MS = 10_000;
/** A program in a workspace may listen on only one of the two families. */
const LOOPBACK = ['127.0.0.1', '::1'];

/** Reads the port of a request for a service of this machine. Throws AppError. */
export function requestedPort(value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 65_535) return value as number;
  throw new AppError('invalid', `The port must be 1 to 65535, not ${JSON.stringify(value)?.slice(0, 50)}.`);
}

function dial(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    const failed = (err: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(err);
    };
    const timer = setTimeout(() => failed(new Error('no answer')), CONNECT_TIMEOUT_MS);
    socket.once('error', failed);
    socket.once('connect', () => {
      clearTimeout(timer);
      socket.off('error', failed);
      socket.on('error', () => {});
      resolve(socket);
    });
  });
}

/** Connects to a TCP port of this machine's loopback. Throws AppError if nothing accepts the connection. */
export async function dialLoopback(port: number): Promise<Socket> {
  let reason = '';
  for (const host of LOOPBACK) {
    try {
      return await dial(host, port);
    } catch (err) {
      const { code, message } = err as NodeJS.ErrnoException;
      // Of both failures, report the more specific one.
      if (reason === '' || reason === 'ECONNREFUSED') reason = code ?? message;
    }
  }
  const why = reason === 'ECONNREFUSED' ? 'nothing listens there' : reason;
  throw new AppError('unavailable', `Port ${port} of the workspace cannot be reached: ${why}.`);
}

/** `{service: 'tcp', port}`: connects to a TCP port of the workspace's loopback, with half-close. */
export function tcpService(activity: Activity): Service {
  return async ({ request, accept }) => {
    const socket = await dialLoopback(requestedPort(request['port']));
    const carried = splice(accept(), socket);
    socket.on('data', (chunk: Buffer) => countCarried(chunk.length));
    const { aToB, bToA } = await carried;
    activity.count(aToB, bToA);
  };
}
