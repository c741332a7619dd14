// One run of a tier: agents connect, people begin, a quiet part, and a part with builds.
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildEnds, createWorkspace } from '../../e2e/harness.ts';
import type { Daemons } from './daemons.ts';
import { type Load, onSite, PROBE_MS, type RunOptions, type Started, sayWarnings, startLoad } from './load.ts';
import type { Counts, Tier } from './options.ts';
import { KEYS } from './population.ts';
import { ask } from './requests.ts';
import { type BuildsResult, latencyOf, type RunResult, type WindowResult } from './results.ts';
import { machineText, type Sampler, type WindowUse } from './sampling.ts';
import type { Site } from './site.ts';
import { judge, saturatedPart } from './verdict.ts';

/** Of a window, before it counts. */
const SETTLE_MS = 10_000;
/** Two rounds of the reports of metadata of idle agents. */
const ALONE_MS = 120_000;
/** The server writes agents' values to the database at most this late, in seconds. */
const WRITTEN_SECONDS = 30;
const POSTS_AT_ONCE = 24;

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

/** What everything uses without the owner's requests, which end. */
async function aloneOf({ probes }: Load, sampler: Sampler, rest: (ms: number) => Promise<unknown>): Promise<WindowUse> {
  probes.stop();
  await rest(SETTLE_MS);
  sampler.begin();
  await rest(ALONE_MS);
  return sampler.end();
}

/** The errors of people, with the first reasons. */
export class Errors {
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
export async function shown({ sql, realMachines }: Site, metadataSeconds: number) {
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
  // idle agents cost this without the owner's requests
  const alone = reach.serverCores === undefined ? undefined : await aloneOf(load, sampler, rest);
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
  sayWarnings(site, say);
  const { lost } = load.crowd;
  errors.reasons.push(...lost.slice(0, 3));
  const parts = { quiet, ...(alone ? { alone } : {}), ...(builds ? { builds } : {}) };
  const judged = { errors: errors.count, reasons: errors.reasons, counts, ...parts };
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

/** Runs a tier and stops everything that it has started, whether it succeeds or not. */
export const runTier = (name: string, tier: Tier, options: RunOptions): Promise<RunResult> =>
  onSite(tier.counts, options, async (started) =>
    measure(name, tier, started, await startLoad(tier.counts, started, options), options),
  );
