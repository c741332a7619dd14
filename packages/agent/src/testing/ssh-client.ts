import type { Duplex } from 'node:stream';
import ssh2, { type Client, type ClientChannel, type ConnectConfig } from 'ssh2';

/** Returns a ready ssh2 client on a stream. */
export async function sshClient(stream: Duplex, config: ConnectConfig = {}): Promise<Client> {
  const client = new ssh2.Client();
  await new Promise<void>((resolve, reject) => {
    client.once('ready', resolve);
    client.once('error', reject);
    client.connect({ sock: stream, username: 'coder', ...config });
  });
  client.on('error', () => {});
  return client;
}

export interface Outcome {
  stdout: string;
  stderr: string;
  code: number | null;
  signal: string | undefined;
}

/** Collects a channel's output and exit until it closes. */
export async function outcome(channel: ClientChannel): Promise<Outcome> {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  channel.on('data', (chunk: Buffer) => out.push(chunk));
  channel.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  const result = { code: null as number | null, signal: undefined as string | undefined };
  channel.on('exit', (code: number | null, signal?: string) => Object.assign(result, { code, signal }));
  await new Promise((resolve) => channel.once('close', resolve));
  return { ...result, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() };
}

export function exec(client: Client, command: string, options: ssh2.ExecOptions = {}): Promise<ClientChannel> {
  return new Promise((resolve, reject) =>
    client.exec(command, options, (err, channel) => (err ? reject(err) : resolve(channel))),
  );
}

export async function run(client: Client, command: string, options?: ssh2.ExecOptions): Promise<Outcome> {
  return outcome(await exec(client, command, options));
}
