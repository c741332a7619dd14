import type { MeasuredPath } from '@ropewalk/client/paths/keep';
import { roundTrips } from '@ropewalk/client/round-trips';
import { AppError, errorText } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { reachAgent } from '../../lib/running.ts';
import { splitTarget } from '../../lib/workspace.ts';

const flags = {
  wait: { type: 'duration', default: '1s', description: 'Time between two pings.' },
  timeout: { type: 'duration', short: 't', default: '5s', description: 'Time to wait for an answer.' },
  num: { type: 'int', short: 'n', description: 'Number of pings. Default: until Ctrl+C.' },
  time: { type: 'bool', description: 'Print the time of day of each answer.' },
  utc: { type: 'bool', description: 'Print the time of day in UTC. Only with --time.' },
} as const;

function clock(utc: boolean): string {
  const now = new Date();
  const shifted = new Date(now.getTime() - (utc ? 0 : now.getTimezoneOffset() * 60_000));
  return shifted.toISOString().replace('T', ' ').slice(0, 23);
}

const ms = (value: number) => `${value < 10 ? value.toFixed(2) : value.toFixed(1)}ms`;

/** Names a path as in Tunnel. */
const named = (path: string) => (path.startsWith('direct ') ? path : `via ${path || 'the server'}`);

/** Measures round trips to the agent: through the server, a workspace proxy or a relay, or directly. Exit code 1 without any answer. */
export default command(
  { args: { workspace: {} }, flags, examples: [{ does: 'Measure three round trips', run: 'coder ping dev -n 3' }] },
  async (ctx, { args, flags: given }) => {
    const most = given.num ?? 0;
    if (most < 0) throw new AppError('invalid', '--num must not be negative.');
    const client = await ctx.client();
    const { workspace, agent } = await reachAgent(ctx, client, splitTarget(args.workspace), { autostart: false });
    const { openTunnel } = await import('@ropewalk/client/stream');
    const times: number[] = [];
    let sent = 0;
    let trips: ReturnType<typeof roundTrips> | undefined;
    let path = () => '';
    const paths = new Paths();
    const aborted = new Promise<void>((resolve) =>
      ctx.signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    try {
      while (!ctx.signal.aborted && (most === 0 || sent < most)) {
        sent++;
        const stamp = given.time ? `${clock(given.utc)} ` : '';
        try {
          if (!trips) {
            const tunnel = await openTunnel(client, agent.id, { service: 'ping', signal: ctx.signal });
            path = tunnel.path ?? path;
            paths.follow(tunnel.paths);
            trips = roundTrips(tunnel.stream);
          }
          const took = await trips.measure(given.timeout);
          times.push(took);
          const way = path();
          paths.add(way, took);
          print(ctx.io, `${stamp}pong from ${workspace.name} in ${ms(took)} ${named(way)}`);
        } catch (err) {
          if (ctx.signal.aborted) break;
          trips?.close();
          trips = undefined;
          note(ctx.io, `${stamp}no pong from ${workspace.name}: ${errorText(err)}`);
        }
        if (most !== 0 && sent >= most) break;
        await wait(given.wait, aborted);
      }
    } finally {
      trips?.close();
    }
    if (sent > 1) {
      const spread = times.length === 0 ? '' : summary(times);
      print(ctx.io, `${sent} sent, ${times.length} received${spread}`);
      for (const line of paths.lines()) print(ctx.io, line);
    }
    return times.length > 0 ? 0 : 1;
  },
);

/** The shortest round trip of each path to the agent: those of the answers, and those that the session measured meanwhile. */
class Paths {
  readonly #shortest = new Map<string, number>();
  #measured: () => MeasuredPath[] = () => [];

  follow(measured: (() => MeasuredPath[]) | undefined): void {
    this.#measured = measured ?? (() => []);
  }

  add(path: string, took: number): void {
    this.#note(path, took);
    for (const { path: other, ms: shortest } of this.#measured()) this.#note(other, shortest);
  }

  /** Nothing for a single path, whose round trips were printed. */
  lines(): string[] {
    if (this.#shortest.size < 2) return [];
    const sorted = [...this.#shortest].toSorted(([, a], [, b]) => a - b);
    return [
      'Shortest round trip of each path:',
      ...sorted.map(([path, took]) => `  ${ms(took).padStart(8)} ${named(path)}`),
    ];
  }

  #note(path: string, took: number): void {
    this.#shortest.set(path, Math.min(took, this.#shortest.get(path) ?? Number.POSITIVE_INFINITY));
  }
}

function summary(times: number[]): string {
  const average = times.reduce((sum, one) => sum + one, 0) / times.length;
  return `, minimum ${ms(Math.min(...times))}, average ${ms(average)}, maximum ${ms(Math.max(...times))}`;
}

async function wait(forMs: number, aborted: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([
    new Promise<void>((resolve) => {
      timer = setTimeout(resolve, forMs);
    }),
    aborted,
  ]);
  clearTimeout(timer);
}
