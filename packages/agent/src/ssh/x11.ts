import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { delimiter, join } from 'node:path';
import { errorText } from '@ropewalk/kit';
import type { ServerChannel, X11Info } from 'ssh2';
import type { SshConnection } from './connection.ts';
import { joinSocket } from './forward.ts';

/** The displays for clients, numbered as in OpenSSH. Display n listens on port 6000 + n. */
const FIRST_DISPLAY = 10;
const LAST_DISPLAY = 1_000;
const BASE_PORT = 6_000;
const XAUTH_TIMEOUT_MS = 10_000;

type Opener = { x11(address: string, port: number, opened: (err?: Error, channel?: ServerChannel) => void): void };

/** Finds `xauth`. Without it programs cannot authenticate to the client's display. */
export function findXauth(env: Record<string, string>): string | undefined {
  const dirs = (env['PATH'] ?? '').split(delimiter).filter((dir) => dir !== '');
  return dirs.map((dir) => join(dir, 'xauth')).find((file) => existsSync(file));
}

/**
 * Creates a display in the workspace that connects to the client's display until the connection ends. Returns its name
 * for DISPLAY. The client made up the cookie for this. It goes into the user's own authority file.
 */
export async function forwardX11(connection: SshConnection, xauth: string, info: X11Info): Promise<string> {
  const { client, signal, log } = connection;
  const cookie = info.cookie.toString();
  if (!/^[A-Za-z0-9-]{1,100}$/.test(info.protocol) || !/^[0-9a-fA-F]{2,512}$/.test(cookie)) {
    throw new Error("The X11 request's authentication protocol or cookie is invalid.");
  }
  const screen = Number(info.screen) || 0;
  let taken = false;
  const onConnection = (socket: Socket) => {
    socket.on('error', () => {});
    if (info.single && taken) {
      socket.destroy();
      return;
    }
    taken = true;
    (client as unknown as Opener).x11('127.0.0.1', socket.remotePort ?? 0, (err, channel) => {
      if (err || !channel) socket.destroy();
      else joinSocket(channel, socket, signal);
    });
  };
  const { server, display } = await listenForDisplay(onConnection);
  const name = `unix:${display}.${screen}`;
  const env = connection.workspace.environment();
  const close = () => {
    server.close();
    runXauth(xauth, env, `remove ${name}\n`).catch((err) => log.debug('xauth', { err: errorText(err) }));
  };
  if (signal.aborted) close();
  else signal.addEventListener('abort', close, { once: true });
  await runXauth(xauth, env, `remove ${name}\nadd ${name} ${info.protocol} ${cookie}\n`);
  return `localhost:${display}.${screen}`;
}

async function listenForDisplay(onConnection: (socket: Socket) => void): Promise<{ server: Server; display: number }> {
  for (let display = FIRST_DISPLAY; display <= LAST_DISPLAY; display++) {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, onConnection);
    const listens = await new Promise<boolean>((resolve) => {
      // also a later one: the system could not accept a connection, and only its client notices
      server.on('error', () => resolve(false));
      server.listen({ host: '127.0.0.1', port: BASE_PORT + display, exclusive: true }, () => resolve(true));
    });
    if (listens) return { server, display };
  }
  throw new Error('All X11 displays of the workspace are in use.');
}

/** Runs xauth with its commands as input: everybody can see arguments. */
function runXauth(file: string, env: Record<string, string>, commands: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, ['-q', '-'], { env, stdio: ['pipe', 'ignore', 'ignore'], timeout: XAUTH_TIMEOUT_MS });
    child.once('error', reject);
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`xauth ended with ${code}`))));
    child.stdin.on('error', () => {});
    child.stdin.end(commands);
  });
}
