import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { spawnGroup } from '@ropewalk/kit';
import { splice } from '@ropewalk/wire/splice';
import type { TestServer } from './server.ts';

/** Returns the reason to skip a test if OpenSSH's programs are missing. */
export function withoutOpenSsh(): string | false {
  for (const name of ['ssh', 'sftp', 'scp', 'ssh-agent', 'ssh-add', 'ssh-keygen']) {
    if (spawnSync('which', [name]).status !== 0) return `OpenSSH's ${name} is not installed`;
  }
  return false;
}

/** Opens a TCP port of this machine that forwards through the tunnel, for programs that can dial. */
export async function startBridge(server: TestServer): Promise<{ port: number; close(): void }> {
  const listener = createServer((socket) => {
    socket.setNoDelay(true);
    server.tunnel().then(
      (tunnel) => splice(socket, tunnel).catch(() => {}),
      () => socket.destroy(),
    );
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return { port: (listener.address() as AddressInfo).port, close: () => listener.close() };
}

export const SSH_OPTIONS = [
  '-F',
  '/dev/null',
  '-o',
  'StrictHostKeyChecking=no',
  '-o',
  'UserKnownHostsFile=/dev/null',
  '-o',
  'LogLevel=ERROR',
  '-o',
  'BatchMode=yes',
];

export interface Ran {
  stdout: string;
  stderr: string;
  code: number | null;
}

/** Runs a program to its end with this input. */
export async function runProgram(file: string, args: string[], input = '', env = process.env): Promise<Ran> {
  const child = await spawnGroup(file, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
  const { stdin, stdout, stderr } = child.process;
  const gather = async (stream: NodeJS.ReadableStream) => {
    let text = '';
    for await (const chunk of stream) text += chunk;
    return text;
  };
  const texts = Promise.all([gather(stdout!), gather(stderr!)]);
  stdin!.on('error', () => {});
  stdin!.end(input);
  const timer = setTimeout(() => child.signal('SIGKILL'), 20_000);
  const { code } = await child.exited;
  clearTimeout(timer);
  const [out, err] = await texts;
  return { stdout: out, stderr: err, code };
}
