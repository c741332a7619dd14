// What must not grow in a long run: memory, descriptors, threads, and what a table needs for a row.
import { fitLine } from './fit.ts';
import { atMost, type Check } from './verdict.ts';

/** A table and its indexes at one moment. */
export interface TableSize {
  bytes: number;
  indexBytes: number;
  rows: number;
  /** Rows that no transaction needs and no vacuum has removed. */
  dead: number;
}

/** The deployment at one moment. */
export interface Moment {
  /** Minutes since the load was complete. */
  minute: number;
  serverMegabytes: number;
  postgresMegabytes: number;
  descriptors: number;
  threads: number;
  /** Average processors since the moment before. */
  serverCores: number;
  postgresCores: number;
}

export interface SoakResult {
  at: string;
  machine: string;
  users: number;
  minutes: number;
  moments: Moment[];
  /** The tables after the first minutes, and at the end. */
  tables: Record<string, { before: TableSize; after: TableSize }>;
  faults: { minute: number; what: string }[];
  builds: number;
  requests: number;
  errors: number;
  /** Errors within half a minute of a fault. */
  errorsOfFaults: number;
  reasons: string[];
  lost: number;
  connected: number;
  checks: Check[];
}

/** Caches and pools fill in the first minutes. */
export const SETTLED_MINUTES = 20;
/** The memory of the server and its descriptors may grow by this share in an hour. */
const MAX_GROWTH = 0.05;
/** What a row needs may grow by this share: half-empty pages after changes of many rows. */
const MAX_ROW_GROWTH = 0.5;
/** Dead rows for each living one. PostgreSQL begins a vacuum at 0.2. */
const MAX_DEAD = 0.5;
/** Smaller tables say nothing: a page of theirs is a large share. */
const LEAST_BYTES = 2_000_000;

/** The growth in an hour as a share of the value after the first minutes. NaN without enough moments. */
export function growthPerHour(moments: readonly Moment[], of: (moment: Moment) => number): number {
  const settled = moments.filter(({ minute }) => minute >= SETTLED_MINUTES);
  if (settled.length < 2) return Number.NaN;
  const line = fitLine(settled.map((moment) => ({ x: moment.minute / 60, y: of(moment) })));
  return line.each / (line.base + line.each * (SETTLED_MINUTES / 60));
}

const percent = (share: number) => `${(share * 100).toFixed(1)} %`;

export function judgeSoak(run: Omit<SoakResult, 'checks'>): Check[] {
  const growth = (what: string, of: (moment: Moment) => number) =>
    atMost(`growth of ${what} in an hour`, growthPerHour(run.moments, of), MAX_GROWTH, percent);
  const checks = [
    atMost('errors without a fault', run.errors, 0, String),
    atMost('agents that are not connected at the end', run.users - run.connected, 0, String),
    growth("the server's memory (PSS)", ({ serverMegabytes }) => serverMegabytes),
    growth("the server's descriptors", ({ descriptors }) => descriptors),
    growth("the server's threads", ({ threads }) => threads),
  ];
  for (const [name, { before, after }] of Object.entries(run.tables)) {
    if (after.bytes + after.indexBytes < LEAST_BYTES || before.rows === 0 || after.rows === 0) continue;
    const each = ({ bytes, indexBytes, rows }: TableSize) => (bytes + indexBytes) / rows;
    checks.push(
      atMost(`${name}: growth per row`, each(after) / each(before) - 1, MAX_ROW_GROWTH, percent),
      atMost(`${name}: dead rows`, after.dead / after.rows, MAX_DEAD, percent),
    );
  }
  return checks;
}
