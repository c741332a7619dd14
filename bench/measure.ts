import { readdirSync, readFileSync } from 'node:fs';

/** The median. */
export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The value below which this share of the values lies. */
export const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;

export async function timed(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

export interface Pair {
  ours: number;
  floor: number;
  ratio: number;
}

/** Measures two things, one after the other, so that a change in the machine's speed affects both. */
export async function pairOf(ours: () => Promise<number>, floor: () => Promise<number>): Promise<Pair> {
  const [a, b] = [await ours(), await floor()];
  return { ours: a, floor: b, ratio: a / b };
}

/** The medians of pairs, and the median of their ratios. */
export const mediansOf = (pairs: readonly Pair[]): Pair => ({
  ours: median(pairs.map(({ ours }) => ours)),
  floor: median(pairs.map(({ floor }) => floor)),
  ratio: median(pairs.map(({ ratio }) => ratio)),
});

/**
 * Measures two things in turn, and returns the medians. The first turns do not count, because in use the servers on either side
 * run for weeks.
 */
export async function paired(
  times: number,
  ours: () => Promise<number>,
  floor: () => Promise<number>,
  { warmUp = 1 } = {},
): Promise<Pair> {
  const pairs: Pair[] = [];
  for (let i = 0; i < warmUp + times; i++) pairs.push(await pairOf(ours, floor));
  return mediansOf(pairs.slice(warmUp));
}

/** A row of the results: our value, its lower bound (`floor`), how they compare (`figure`), and the figure to reach. */
export interface Row {
  what: string;
  ours: string;
  floor: string;
  figure: string;
  reach: string;
  met: boolean;
}

/** Prints rows as a Markdown table. */
export function table(rows: Row[]): string {
  const head = ['what', 'ours', 'floor', 'figure', 'reach', ''];
  const cells = rows.map((row) => [
    row.what,
    row.ours,
    row.floor,
    row.figure,
    row.reach,
    row.met ? 'met' : '**missed**',
  ]);
  return [head, head.map(() => '---'), ...cells].map((line) => `| ${line.join(' | ')} |`).join('\n');
}

/** Proportional set size (PSS) of a process, in MB: its own memory and its part of shared memory. */
export function pssMegabytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return (Number(/^Pss:\s+(\d+)/m.exec(text)![1]) * 1024) / 1e6;
}

export interface RunningProcess {
  pid: number;
  command: string;
  /** Its own processor time, in ms. */
  own: number;
  /** Processor time of its ended children, in ms. */
  children: number;
}

/** Linux counts processor time in hundredths of a second. */
const TICK_MS = 10;

/** A process and all processes below it, from /proc. */
export function processesBelow(root: number): RunningProcess[] {
  const found = readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'utf8');
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      // after the name, which may contain spaces: state, parent, …, utime, stime, cutime, cstime
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      const ticks = (first: number) => (Number(fields[first]) + Number(fields[first + 1])) * TICK_MS;
      return [{ pid: Number(name), parent: Number(fields[1]), command, own: ticks(11), children: ticks(13) }];
    } catch {
      return []; // it has ended
    }
  });
  const pids = new Set([root]);
  for (let size = 0; size < pids.size; ) {
    size = pids.size;
    for (const { pid, parent } of found) if (pids.has(parent)) pids.add(pid);
  }
  return found.filter(({ pid }) => pids.has(pid)).map(({ parent: _, ...process }) => process);
}
