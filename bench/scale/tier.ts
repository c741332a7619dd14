// One run of a tier: agents connect, people begin, a quiet part, and a part with builds.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildEnds, createWorkspace } from '../../e2e/harness.ts';
import type { Activity } from './activities.ts';
import { type Crowd, startCrowd } from './crowd.ts';
import { type Daemons, startDaemons } from './daemons.ts';
import type { MachinesReport } from './machines-process.ts';
import type { Counts, Tier } from './options.ts';
import { type People, startPeople } from './people.ts';
import { KEYS, PASSWORD } from './population.ts';
import { ask } from './requests.ts';
import { type BuildsResult, latencyOf, type RunResult, type WindowResult } from './results.ts';
import { machineText, Sampler, type WindowUse } from './sampling.ts';
import { PLAYED, PSK, type Site, startSite } from './site.ts';
import { judge, saturatedPart } from './verdict.ts';

export interface RunOptions {
  minutes: number;
  sources: boolean;
  signal: AbortSignal;
  /** Prints a line about the progress. */
  say(text: string): void;
}

/** Agents in one process of the generator. */
const AGENTS_EACH = 2_500;
/** All at the same time would wait for each other, time out and try again: see docs/scale.md. */
const CONNECTING_AT_ONCE = 500;
const LISTS_MS = 10_000;
const TYPING_MS = 2_000;
const TERMINAL_MS = 5_000;
const COMMAND_MS = 30_000;
/** The owner's requests, whose times are those of the API. */
const PROBE_MS = 200;
/** Of a window, before it counts. */
const SETTLE_MS = 10_000;
/** The server writes agents' values to the database at most this late, in seconds. */
const WRITTEN_SECONDS = 30;
const POSTS_AT_ONCE = 24;
const CONNECT_MS = 300_000;
const HEALTH_MS = 600_000;
const WARNINGS = 10;
const LOGS_MS = 60_000;

interface Started {
  site: Site;
  sampler: Sampler;
  /** What to stop, in the order in which it started. */
  stops: (() => unknown)[];
}

interface Load {
  crowd: Crowd;
  /** What the server used while the agents connected. */
  connecting: WindowUse;
  people: People;
  probes: People;
  daemons: Daemons | undefined;
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

/** Starts everything that plays people, agents and daemons. Stops what has started if a later part fails. */
async function startLoad(counts: Counts, { site, sampler, stops }: Started, options: RunOptions): Promise<Load> {
  const { url } = site.server;
  options.say(`${counts.agents} agents connect …`);
  const processes = Math.max(1, Math.ceil(counts.agents / AGENTS_EACH));
  sampler.begin();
  const crowd = await startCrowd(
    {
      url,
      tokens: site.machines.map(({ token }) => token),
      metadataMs: counts.metadataSeconds * 1_000,
      atOnce: Math.ceil(CONNECTING_AT_ONCE / processes),
      ...(counts.live ? { logsMs: LOGS_MS, healthMs: HEALTH_MS } : {}),
    },
    processes,
  );
  stops.push(() => crowd.stop());
  const connecting = sampler.end();
  const machines = await startMachines(site);
  if (machines) stops.push(() => machines.child.disconnect());
  options.signal.throwIfAborted();
  const activities = activitiesOf(counts, site, machines?.port ?? 0);
  options.say(`${activities.length} people begin …`);
  const people = await startPeople(url, activities, activities.length > 1_000 ? 2 : 1);
  stops.push(() => people.stop());
  const owner = { kind: 'lists' as const, token: site.server.token, everyMs: PROBE_MS };
  const probes = await startPeople(url, [owner], 1);
  stops.push(() => probes.stop());
  const daemons =
    counts.daemons > 0
      ? await startDaemons({
          url,
          psk: PSK,
          buildMs: counts.buildSeconds * 1_000,
          daemons: Array.from({ length: counts.daemons }, (_, i) => ({ name: `played-${i}`, tags: PLAYED })),
        })
      : undefined;
  if (daemons) stops.push(() => daemons.stop());
  return { crowd, connecting, people, probes, daemons };
}

/** Everything that happens while `run` runs. */
async function windowOf(
  { people, probes }: Load,
  sampler: Sampler,
  errors: Errors,
  run: () => Promise<unknown>,
): Promise<WindowResult> {
  errors.add(await people.take(), await probes.take());
  sampler.begin();
  await run();
  const use = sampler.end();
  const [did, probed] = [await people.take(), await probes.take()];
  errors.add(did, probed);
  return {
    ...use,
    api: latencyOf(probed.times.get('api')),
    people: Object.fromEntries([...did.times].map(([name, times]) => [name, latencyOf(times)])),
    messages: did.counts,
  };
}

class Errors {
  count = 0;
  readonly reasons: string[] = [];

  add(...reports: readonly { errors: number; reasons: readonly string[] }[]): void {
    for (const { errors, reasons } of reports) {
      this.count += errors;
      this.reasons.push(...reasons.slice(0, 20 - this.reasons.length));
    }
  }
}

/** Posts all builds at the same time and waits for their end. Terraform runs a few others meanwhile. */
async function runBuilds(counts: Counts, site: Site, daemons: Daemons, errors: Errors): Promise<BuildsResult> {
  const { server, sql, people, stopped } = site;
  const began = performance.now();
  const left = stopped.map((machine, i) => ({ machine, token: people[i % people.length]!.token }));
  const posting = Promise.all(
    Array.from({ length: POSTS_AT_ONCE }, async () => {
      for (let next = left.pop(); next; next = left.pop()) {
        const path = `/workspaces/${next.machine.id}/builds`;
        await ask(server.url, { method: 'POST', path, token: next.token, body: { transition: 'start' } });
      }
    }),
  );
  let seconds = 0;
  const played = Promise.all([posting, daemons.ended(counts.builds)]).then(() => {
    seconds = (performance.now() - began) / 1_000;
  });
  const [realSucceeded] = await Promise.all([runRealBuilds(counts.realBuilds, site, errors), played]);
  const ids = stopped.map(({ id }) => id);
  const [row] = await sql<{ succeeded: number; p50: number; p99: number }[]>`
    SELECT count(*) FILTER (WHERE j.job_status = 'succeeded')::int AS succeeded,
      percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM j.started_at - j.created_at))::float8 AS p50,
      percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM j.started_at - j.created_at))::float8 AS p99
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE b.workspace_id = ANY(${ids}) AND b.build_number = 2`;
  if (row!.succeeded !== counts.builds)
    errors.add({ errors: counts.builds - row!.succeeded, reasons: [`${row!.succeeded} builds succeeded`] });
  const rounds = Math.ceil(counts.builds / counts.daemons);
  return {
    count: counts.builds,
    perMinute: counts.builds / (seconds / 60),
    waitP50Ms: row!.p50 * 1_000,
    waitP99Ms: row!.p99 * 1_000,
    ideal: (rounds * counts.buildSeconds) / seconds,
    realSucceeded,
  };
}

/** Builds that the built-in daemons run with Terraform. */
async function runRealBuilds(count: number, { server, realTemplate }: Site, errors: Errors): Promise<number> {
  let succeeded = 0;
  for (let i = 0; i < count; i++) {
    const workspace = await createWorkspace(server, realTemplate, `real-${i}`);
    const { job } = await buildEnds(server, workspace.latest_build.id, 120_000);
    if (job.status === 'succeeded') succeeded += 1;
    else errors.add({ errors: 1, reasons: [`a build with Terraform: ${job.error}`] });
  }
  return succeeded;
}

/** Agents that the server shows as connected, and values that are as new as they should be. */
async function shown({ sql, realMachines }: Site, metadataSeconds: number) {
  const others = realMachines.map(({ agentId }) => agentId);
  const [row] = await sql<{ connected: number; fresh: number }[]>`SELECT
    (SELECT count(*)::int FROM workspace_agents WHERE last_connected_at > now() - interval '45 seconds'
      AND disconnected_at IS NULL AND id <> ALL(${others})) AS connected,
    (SELECT count(*)::int FROM workspace_agent_metadata WHERE workspace_agent_id <> ALL(${others})
      AND collected_at > now() - make_interval(secs => ${metadataSeconds + WRITTEN_SECONDS})) AS fresh`;
  return row!;
}

async function measure(
  tier: string,
  { counts, reach }: Tier,
  { site, sampler }: Started,
  load: Load,
  options: RunOptions,
): Promise<RunResult> {
  const { signal, say } = options;
  const errors = new Errors();
  const rest = (ms: number) => sleep(ms, undefined, { signal });
  await rest(SETTLE_MS);
  // with builds, half of the time is quiet
  const quietMs = options.minutes * 60_000 * (counts.builds > 0 ? 0.5 : 1);
  say(`quiet part: ${(quietMs / 1_000).toFixed(0)} s …`);
  const quiet = await windowOf(load, sampler, errors, () => rest(quietMs));
  const { connected, fresh } = await shown(site, counts.metadataSeconds);
  let builds: RunResult['builds'];
  if (counts.builds > 0) {
    say(`${counts.builds} builds on ${counts.daemons} daemons …`);
    let done: BuildsResult | undefined;
    const aborted = once(signal, 'abort').then(() => signal.throwIfAborted());
    const all = await windowOf(load, sampler, errors, () =>
      Promise.race([
        aborted,
        runBuilds(counts, site, load.daemons!, errors).then((result) => {
          done = result;
        }),
      ]),
    );
    builds = { ...all, ...done! };
  }
  // values are written a while after their report: a new deployment has none for the first interval
  const wantedFresh =
    quietMs + SETTLE_MS > (counts.metadataSeconds + WRITTEN_SECONDS) * 1_000 ? counts.agents * KEYS : 0;
  const warnings = warningsOf(site);
  if (warnings !== '') say(`the server warns:\n${warnings}`);
  const { lost } = load.crowd;
  errors.reasons.push(...lost.slice(0, 3));
  const judged = { errors: errors.count, reasons: errors.reasons, quiet, counts, ...(builds ? { builds } : {}) };
  const busiest = builds ?? quiet;
  return {
    tier,
    at: new Date().toISOString(),
    machine: machineText(),
    executable: !options.sources,
    ownerRequests: 1_000 / PROBE_MS,
    connecting: {
      ...latencyOf(load.crowd.connecting),
      seconds: load.crowd.ms / 1_000,
      retries: load.crowd.retries,
      serverMsEach: (load.connecting.groups.server.cores * load.connecting.seconds * 1_000) / counts.agents,
      postgresMsEach: (load.connecting.groups.postgres.cores * load.connecting.seconds * 1_000) / counts.agents,
    },
    ...judged,
    checks: judge({ ...judged, lost: lost.length, connected, fresh, wantedFresh }, reach),
    saturated: saturatedPart({ ...busiest, processors: availableParallelism() }),
  } satisfies RunResult;
}

/** The last warnings and errors of the server's log. */
const warningsOf = ({ server }: Site): string =>
  server
    .log()
    .split('\n')
    .filter((line) => /\b(warn|error)\b/i.test(line))
    .slice(-WARNINGS)
    .join('\n');

/** Runs a tier and stops everything that it has started, whether it succeeds or not. */
export async function runTier(name: string, tier: Tier, options: RunOptions): Promise<RunResult> {
  options.say('the server starts …');
  const site = await startSite(tier.counts, options);
  const stops: (() => unknown)[] = [];
  const sampler = new Sampler(site.server.child.pid!);
  try {
    const started = { site, sampler, stops };
    const load = await startLoad(tier.counts, started, options);
    return await measure(name, tier, started, load, options);
  } catch (err) {
    options.say(warningsOf(site));
    throw err;
  } finally {
    sampler.stop();
    // people leave first, so that the end of the others is not an error of theirs
    for (const stop of stops.toReversed()) await stop();
    await site.stop();
  }
}
