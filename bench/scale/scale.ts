// `npm run bench scale`: runs tiers, prints their verdicts, and adds them to a results file.
import { join } from 'node:path';
import type { Row } from '../measure.ts';
import { parseOptions, type ScaleOptions, USAGE } from './options.ts';
import { report } from './report.ts';
import { type RunResult, writeResult, writeSoak } from './results.ts';
import { runSoak } from './soak.ts';
import { runTier } from './tier.ts';
import { rowsOf } from './verdict.ts';

/** The runs of docs/scale.md. */
const RESULTS = join(import.meta.dirname, 'results.json');

/** The exit status of a run that a signal has ended, as in a shell. */
const CANCELED = 130;

export async function benchScale(args: readonly string[]): Promise<Row[]> {
  if (args.includes('--help')) {
    console.log(USAGE);
    return [];
  }
  const options = optionsOf(args);
  if (options.report) {
    report(options.results ?? RESULTS);
    return [];
  }
  const canceled = new AbortController();
  const cancel = (signal: NodeJS.Signals) => {
    // a second signal ends the process, as without this handler
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, cancel);
    canceled.abort(new Error(`Canceled by ${signal}. Everything that the run had started is stopped.`));
  };
  process.on('SIGINT', cancel);
  process.on('SIGTERM', cancel);
  const rows: Row[] = [];
  try {
    for (const { name, tier } of options.tiers) {
      const say = (text: string) => console.error(`${name}: ${text}`);
      const { minutes, sources } = options;
      const run = await runTier(name, tier, { minutes, sources, signal: canceled.signal, say });
      console.error(summary(run));
      if (options.results) writeResult(options.results, run);
      rows.push(...rowsOf(name, run.checks));
    }
    if (options.soak !== undefined) rows.push(...(await soak(options.soak, options, canceled.signal)));
  } catch (err) {
    if (!canceled.signal.aborted) throw err;
    console.error((canceled.signal.reason as Error).message);
    process.exit(CANCELED);
  } finally {
    process.off('SIGINT', cancel);
    process.off('SIGTERM', cancel);
  }
  return rows;
}

async function soak(users: number, { minutes, sources, results }: ScaleOptions, signal: AbortSignal): Promise<Row[]> {
  const name = `soak-${users}`;
  const run = await runSoak(users, { minutes, sources, signal, say: (text) => console.error(`${name}: ${text}`) });
  console.error(
    `${name}: ${run.builds} builds, ${run.requests} requests, ${run.errorsOfFaults} errors after ${run.faults.length} faults, ${run.lost} connections of agents ended`,
  );
  for (const reason of run.reasons) console.error(`    ${reason}`);
  if (results) writeSoak(results, run);
  return rowsOf(name, run.checks);
}

/** Ends the process if the options are wrong. */
function optionsOf(args: readonly string[]): ScaleOptions {
  try {
    return parseOptions(args);
  } catch (err) {
    console.error(`${(err as Error).message}\n\n${USAGE}`);
    process.exit(1);
  }
}

/** The figures of a run that have no reach. */
function summary({ tier, connecting, quiet, builds, errors, reasons, saturated }: RunResult): string {
  const lines = [
    `${tier}: connected in ${connecting.seconds.toFixed(1)} s (p50 ${connecting.p50.toFixed(0)} ms, p99 ${connecting.p99.toFixed(0)} ms, ${connecting.retries} tried again; server ${connecting.serverMsEach.toFixed(1)}, PostgreSQL ${connecting.postgresMsEach.toFixed(1)} ms each)`,
  ];
  for (const [part, window] of [
    ['quiet', quiet],
    ['builds', builds],
  ] as const) {
    if (!window) continue;
    const { groups, api } = window;
    const use = Object.entries(groups).map(
      ([group, { cores, peakCores, peakMegabytes }]) =>
        `${group} ${cores.toFixed(3)} cores (peak ${peakCores.toFixed(2)}), ${peakMegabytes.toFixed(0)} MB`,
    );
    lines.push(`  ${part}, ${window.seconds.toFixed(0)} s: ${use.join('; ')}`);
    lines.push(
      `    main thread ${window.mainThread.toFixed(3)}, busiest generator ${window.busiestGenerator.toFixed(2)}, other work ${window.others.toFixed(2)} cores, load ${window.load.toFixed(1)}`,
    );
    lines.push(
      `    API p50 ${api.p50.toFixed(1)}, p99 ${api.p99.toFixed(1)} ms (${api.count}); read ${window.readMegabytes.toFixed(0)} MB, written ${window.writtenMegabytes.toFixed(0)} MB`,
    );
    for (const [name, { count, p50, p99 }] of Object.entries(window.people))
      lines.push(`    ${name}: ${count}, p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} ms`);
    const messages = Object.entries(window.messages).map(([name, count]) => `${name} ${count}`);
    if (messages.length > 0) lines.push(`    messages: ${messages.join(', ')}`);
  }
  if (builds)
    lines.push(
      `    ${builds.perMinute.toFixed(1)} builds a minute (${(builds.ideal * 100).toFixed(0)} % of the possible), wait p50 ${builds.waitP50Ms.toFixed(0)}, p99 ${builds.waitP99Ms.toFixed(0)} ms; ${builds.realSucceeded} with Terraform`,
    );
  lines.push(`  ${errors} errors${saturated ? `; full: ${saturated}` : ''}`);
  for (const reason of reasons) lines.push(`    ${reason}`);
  return lines.join('\n');
}
