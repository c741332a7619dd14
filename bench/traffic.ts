// Processes that a bench puts between two programs: a source of bytes, an echo, a plain pipe, and a pipe that delays.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { median } from './measure.ts';

const PART = Buffer.alloc(64 * 1024, 'x');

function listen(onSocket: (socket: Socket) => void): void {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on('error', () => {});
    onSocket(socket);
  });
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
}

/** Sends as many bytes as the first line of the connection requests, and ends. */
function serveSource(): void {
  listen((socket) => {
    socket.once('data', (line: Buffer) => {
      let left = Number(line.toString());
      const send = () => {
        while (left > 0) {
          const part = PART.subarray(0, Math.min(left, PART.length));
          left -= part.length;
          if (!socket.write(part)) {
            socket.once('drain', send);
            return;
          }
        }
        socket.end();
      };
      send();
    });
  });
}

/** Copies bytes, each delayed by `delayMs`. It has no bound, like a long wire. */
function servePipe(to: number, delayMs: number): void {
  let target = to;
  process.on('message', (port: number) => {
    target = port;
  });
  listen((socket) => {
    const inside = connect({ port: target, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    inside.on('error', () => {});
    if (delayMs === 0) {
      socket.pipe(inside);
      inside.pipe(socket);
      return;
    }
    const carry = (from: Socket, into: Socket) => {
      const late = (run: () => void) => setTimeout(run, delayMs);
      from.on('data', (part) => late(() => into.destroyed || into.write(part)));
      from.on('end', () => late(() => into.end()));
      from.on('close', () => late(() => into.destroy()));
    };
    carry(socket, inside);
    carry(inside, socket);
  });
}

/** Sends back what it receives. */
function serveEcho(): void {
  listen((socket) => void socket.pipe(socket));
}

if (process.argv[2] === 'source') serveSource();
if (process.argv[2] === 'echo') serveEcho();
if (process.argv[2] === 'pipe') servePipe(Number(process.argv[3]), Number(process.argv[4] ?? 0));

export interface Part {
  port: number;
  child: ChildProcess;
}

/** Starts a process of these: `source`, `echo`, or `pipe PORT [DELAY_MS]`, which can be sent another port. */
export async function startPart(...args: (string | number)[]): Promise<Part> {
  const child = fork(import.meta.filename, args.map(String));
  const [port] = (await once(child, 'message')) as [number];
  return { port, child };
}

/** Milliseconds until a source behind this port has sent this many bytes. */
export async function fetchBytes(port: number, bytes: number): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const started = performance.now();
  socket.write(`${bytes}\n`);
  let got = 0;
  for await (const part of socket as AsyncIterable<Buffer>) got += part.length;
  if (got !== bytes) throw new Error(`${got} bytes came, not ${bytes}`);
  return performance.now() - started;
}

/** The median milliseconds that a byte takes to an echo behind this port and back, on one connection. */
export async function roundTrip(port: number, times: number): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    const began = performance.now();
    socket.write('x');
    await once(socket, 'data');
    took.push(performance.now() - began);
  }
  socket.destroy();
  return median(took);
}
