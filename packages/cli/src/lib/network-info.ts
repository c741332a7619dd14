import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Client } from '@ropewalk/client';
import { type RoundTrips, roundTrips } from '@ropewalk/client/round-trips';
import { ensureDirectory } from '@ropewalk/kit';
import type { Context } from '../framework/context.ts';

export interface NetworkInfoOptions {
  /** The directory that editors read. */
  dir: string;
  /** The process ID of the SSH client. Editors find the file by it. */
  pid: number;
  intervalMs: number;
  /** The server's host, or the name of the workspace proxy that the bytes go through now. */
  via: () => string;
  /** Whether the bytes go directly to the agent now. Default: they do not. */
  isDirect?: () => boolean;
  trips: RoundTrips;
}

/** Counts the bytes of a stream. */
export function counted(stream: Duplex): { sent: number; received: number } {
  const count = { sent: 0, received: 0 };
  stream.on('data', (chunk: Buffer) => {
    count.received += chunk.length;
  });
  stream.pause();
  const write = stream.write.bind(stream);
  stream.write = (chunk: Buffer, ...rest: unknown[]) => {
    count.sent += chunk.length;
    return write(chunk, ...(rest as [never]));
  };
  return count;
}

/**
 * Writes the statistics of a connection in upstream's format, with the agent's first answer and then at each interval.
 * Returns a function that stops and removes the file. Without an answer in an interval, the file keeps the last latency.
 */
export function writeNetworkInfo(
  count: { sent: number; received: number },
  options: NetworkInfoOptions,
): () => Promise<void> {
  const file = join(options.dir, `${options.pid}.json`);
  let before = { at: performance.now(), ...count };
  let latency: number | undefined;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const write = async () => {
    latency = await options.trips.measure(options.intervalMs).catch(() => latency);
    // an editor would show the agent as closer than it is
    if (latency === undefined || stopped) return;
    const now = { at: performance.now(), ...count };
    const seconds = Math.max((now.at - before.at) / 1_000, 0.001);
    const via = options.via();
    const info = {
      p2p: options.isDirect?.() ?? false,
      latency,
      preferred_derp: via,
      derp_latency: { [via]: latency },
      upload_bytes_sec: Math.round((now.sent - before.sent) / seconds),
      download_bytes_sec: Math.round((now.received - before.received) / seconds),
      using_coder_connect: false,
    };
    before = now;
    // an editor must never read a partial file
    writeFileSync(`${file}.new`, JSON.stringify(info), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  };
  const loop = async (): Promise<void> => {
    await write().catch(() => {});
    if (!stopped) timer = setTimeout(() => (running = loop()), options.intervalMs);
  };
  let running = loop();
  return async () => {
    stopped = true;
    clearTimeout(timer);
    options.trips.close();
    await running;
    for (const path of [file, `${file}.new`]) rmSync(path, { force: true });
  };
}

/** Writes a connection's statistics for the editor that started this process. Returns a function that stops. */
export async function showConnection(
  ctx: Context,
  client: Client,
  agentId: string,
  stream: Duplex,
  dir: string,
  intervalMs: number,
): Promise<() => Promise<void>> {
  await ensureDirectory(dir, { mode: 0o700 });
  const { openTunnel } = await import('@ropewalk/client/stream');
  const ping = await openTunnel(client, agentId, { service: 'ping', signal: ctx.signal });
  const trips = roundTrips(ping.stream);
  const { host } = new URL(client.url);
  const via = () => /^proxy (.+)$/.exec(ping.path?.() ?? '')?.[1] ?? host;
  const isDirect = () => ping.path?.().startsWith('direct ') ?? false;
  return writeNetworkInfo(counted(stream), { dir, pid: process.ppid, intervalMs, via, trips, isDirect });
}
