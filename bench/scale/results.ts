// The results file: one entry for each tier, its newest run. docs/scale.md and the pictures are made from it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Histogram } from './histogram.ts';
import type { Counts } from './options.ts';
import type { WindowUse } from './sampling.ts';
import type { SoakResult } from './soak-verdict.ts';
import type { Check } from './verdict.ts';

export interface Latency {
  count: number;
  p50: number;
  p99: number;
  max: number;
}

export interface WindowResult extends WindowUse {
  /** Of the owner's requests from a process that does nothing else. */
  api: Latency;
  /** What people waited for, by activity. */
  people: Record<string, Latency>;
  /** Messages of streams. */
  messages: Record<string, number>;
}

export interface BuildsResult {
  count: number;
  perMinute: number;
  /** From the post until a daemon has the job. */
  waitP50Ms: number;
  waitP99Ms: number;
  /** With a daemon for each build and no other cost, the builds would take this share of the time that they took. */
  ideal: number;
  realSucceeded: number;
}

export interface RunResult {
  tier: string;
  at: string;
  machine: string;
  /** Whether the server ran from the built executable, as people run it. */
  executable: boolean;
  /** Of the owner in a second, whose times are those of the API. They are part of all figures. */
  ownerRequests: number;
  counts: Counts;
  /** With the processor time that one connection cost. */
  connecting: Latency & { seconds: number; retries: number; serverMsEach: number; postgresMsEach: number };
  quiet: WindowResult;
  /** Without the owner's requests. */
  alone?: WindowUse;
  builds?: WindowResult & BuildsResult;
  errors: number;
  reasons: string[];
  checks: Check[];
  /** The part that has nothing left, if any. */
  saturated: string;
}

/** Without times, the percentiles are NaN, which reaches nothing. */
export function latencyOf(histogram: Histogram | undefined): Latency {
  return {
    count: histogram?.count ?? 0,
    p50: histogram?.percentile(0.5) ?? Number.NaN,
    p99: histogram?.percentile(0.99) ?? Number.NaN,
    max: histogram?.maxMs ?? 0,
  };
}

export function readResults(file: string): RunResult[] {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as RunResult[]) : [];
}

export function readSoak(file: string): SoakResult | undefined {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as SoakResult) : undefined;
}

export const writeSoak = (file: string, run: SoakResult): void => write(file, run);

/** Adds a run, instead of an earlier one of the same tier. */
export function writeResult(file: string, run: RunResult): void {
  const others = readResults(file).filter(({ tier }) => tier !== run.tier);
  const all = [...others, run].sort((a, b) => a.tier.localeCompare(b.tier, 'en', { numeric: true }));
  write(file, all);
}

function write(file: string, data: unknown): void {
  const round = (_key: string, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;
  writeFileSync(file, `${JSON.stringify(data, round, 2)}\n`);
}
