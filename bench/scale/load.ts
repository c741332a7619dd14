// Everything that plays people, agents and daemons of one deployment.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Activity } from './activities.ts';
import { type Crowd, startCrowd } from './crowd.ts';
import { type Daemons, startDaemons } from './daemons.ts';
import type { MachinesReport } from './machines-process.ts';
import type { Counts } from './options.ts';
import { type People, startPeople } from './people.ts';
import { PASSWORD } from './population.ts';
import { Sampler, type WindowUse } from './sampling.ts';
import { PLAYED, PSK, type Site, startSite } from './site.ts';

/** Agents in one process of the generator. */
const AGENTS_EACH = 2_500;
const LISTS_MS = 10_000;
const TYPING_MS = 2_000;
const TERMINAL_MS = 5_000;
const COMMAND_MS = 30_000;
/** The owner's requests, whose times are those of the API. */
export const PROBE_MS = 200;
const CONNECT_MS = 300_000;
const HEALTH_MS = 600_000;
const LOGS_MS = 60_000;
const WARNINGS = 10;

export interface RunOptions {
  minutes: number;
  sources: boolean;
  signal: AbortSignal;
  /** Prints a line about the progress. */
  say(text: string): void;
}

export interface Started {
  site: Site;
  sampler: Sampler;
  /** What to stop, in the order in which it started. */
  stops: (() => unknown)[];
}

export interface Load {
  crowd: Crowd;
  /** What the server used while the agents connected. */
  connecting: WindowUse;
  people: People;
  probes: People;
  daemons: Daemons | undefined;
}

/** The last warnings and errors of the server's log. */
const warningsOf = ({ server }: Site): string =>
  server
    .log()
    .split('\n')
    .filter((line) => /\b(warn|error)\b/i.test(line))
    .slice(-WARNINGS)
    .join('\n');

export function sayWarnings(site: Site, say: RunOptions['say']): void {
  const warnings = warningsOf(site);
  if (warnings !== '') say(`the server warns:\n${warnings}`);
}

/** Starts a deployment for one run, and stops everything that the run has started, whether it succeeds or not. */
export async function onSite<T>(
  counts: Counts,
  options: RunOptions,
  run: (started: Started) => Promise<T>,
): Promise<T> {
  options.say('the server starts …');
  const site = await startSite(counts, options);
  const stops: (() => unknown)[] = [];
  const sampler = new Sampler(site.server.child.pid!);
  try {
    return await run({ site, sampler, stops });
  } catch (err) {
    sayWarnings(site, options.say);
    throw err;
  } finally {
    sampler.stop();
    // people leave first, so that the end of the others is not an error of theirs
    for (const stop of stops.toReversed()) await stop();
    await site.stop();
  }
}

/** What people do, each with an own account as far as a workspace is needed. */
function activitiesOf(counts: Counts, site: Site, port: number): Activity[] {
  const { people, machines, realMachines, versionId } = site;
  const times = <T>(count: number, of: (i: number) => T) => Array.from({ length: count }, (_, i) => of(i));
  const token = (i: number) => people[i % people.length]!.token;
  const real = (i: number) => {
    const { agentId } = realMachines[i % realMachines.length]!;
    return { agentId, token: token(i % realMachines.length) };
  };
  return [
    ...times(counts.lists, (i) => ({ kind: 'lists' as const, token: token(i), everyMs: LISTS_MS })),
    ...times(counts.dashboards, (i) => {
      const { name, agentId } = machines[i]!;
      return { kind: 'dashboard' as const, token: token(i), owner: people[i]!.username, workspace: name, agentId };
    }),
    ...times(counts.watchers, (i) => ({ kind: 'watch' as const, token: token(i), workspaceId: machines[i]!.id })),
    ...times(counts.forms, (i) => ({ kind: 'form' as const, token: token(i), versionId, everyMs: TYPING_MS })),
    ...times(counts.terminals, (i) => ({ kind: 'terminal' as const, ...real(i), everyMs: TERMINAL_MS })),
    ...times(counts.ssh, (i) => ({ kind: 'ssh' as const, ...real(i), everyMs: COMMAND_MS })),
    ...times(counts.forwards, (i) => ({ kind: 'forward' as const, ...real(i), port, everyMs: TYPING_MS })),
    ...times(counts.signIns, (i) => ({
      kind: 'sign-in' as const,
      email: people[i % people.length]!.email,
      password: PASSWORD,
      everyMs: 60_000,
    })),
  ];
}

async function startMachines(site: Site): Promise<{ child: ChildProcess; port: number } | undefined> {
  if (site.realMachines.length === 0) return undefined;
  const child = fork(join(import.meta.dirname, 'machines-process.ts'));
  child.send({ url: site.server.url, tokens: site.realMachines.map(({ token }) => token) });
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('the process of the real agents ended')));
  const [{ port }] = (await Promise.race([once(child, 'message'), ended])) as [MachinesReport];
  ended.catch(() => {});
  await waitFor('the real agents', CONNECT_MS, async () => {
    const ids = site.realMachines.map(({ agentId }) => agentId);
    const [row] = await site.sql<{ ready: number }[]>`SELECT count(*)::int AS ready FROM workspace_agents
      WHERE id = ANY(${ids}) AND lifecycle_state = 'ready' AND disconnected_at IS NULL AND last_connected_at IS NOT NULL`;
    return row!.ready === ids.length;
  });
  return { child, port };
}

async function waitFor(what: string, ms: number, holds: () => Promise<boolean>): Promise<void> {
  const until = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > until) throw new Error(`${what} did not happen within ${ms / 1_000} s`);
    await sleep(200);
  }
}

/** Starts everything. `again`: agents and daemons whose connection ended connect again. Stops what has started if a later part fails. */
export async function startLoad(
  counts: Counts,
  { site, sampler, stops }: Started,
  options: RunOptions & { again?: boolean },
): Promise<Load> {
  const { url } = site.server;
  const { again = false } = options;
  options.say(`${counts.agents} agents connect …`);
  const processes = Math.max(1, Math.ceil(counts.agents / AGENTS_EACH));
  sampler.begin();
  const crowd = await startCrowd(
    {
      url,
      tokens: site.machines.map(({ token }) => token),
      metadataMs: counts.metadataSeconds * 1_000,
      atOnce: Math.ceil(counts.connecting / processes),
      again,
      ...(counts.live ? { logsMs: LOGS_MS, healthMs: HEALTH_MS } : {}),
    },
    processes,
  );
  stops.push(() => crowd.stop());
  const connecting = sampler.end();
  const machines = await startMachines(site);
  if (machines) stops.push(() => machines.child.disconnect());
  options.signal.throwIfAborted();
  // before people, whose number may be more than one server can answer
  const daemons =
    counts.daemons > 0
      ? await startDaemons({
          url,
          psk: PSK,
          buildMs: counts.buildSeconds * 1_000,
          again,
          daemons: Array.from({ length: counts.daemons }, (_, i) => ({ name: `played-${i}`, tags: PLAYED })),
        })
      : undefined;
  if (daemons) stops.push(() => daemons.stop());
  const activities = activitiesOf(counts, site, machines?.port ?? 0);
  options.say(`${activities.length} people begin …`);
  const people = await startPeople(url, activities, activities.length > 1_000 ? 2 : 1);
  stops.push(() => people.stop());
  const owner = { kind: 'lists' as const, token: site.server.token, everyMs: PROBE_MS };
  const probes = await startPeople(url, [owner], 1);
  stops.push(() => probes.stop());
  return { crowd, connecting, people, probes, daemons };
}
