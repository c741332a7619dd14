import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { cpus, freemem, totalmem } from 'node:os';
import { ownValue } from '@ropewalk/kit/own-value';

export interface Usage {
  used: number;
  /** Absent without a limit. */
  total?: number;
  unit: 'cores' | 'B';
}

const UNITS: Record<string, number> = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
const SAMPLE_MS = 250;

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
};

const GROUP = '/sys/fs/cgroup';

/** Whether this process runs in the control group of a container. */
export function isContained(): boolean {
  return read(`${GROUP}/memory.current`) !== undefined && read(`${GROUP}/cgroup.controllers`) !== undefined;
}

const pause = () => new Promise<void>((resolve) => setTimeout(resolve, SAMPLE_MS));

function cpuTimes(): { busy: number; all: number } {
  let busy = 0;
  let all = 0;
  for (const { times } of cpus()) {
    const sum = times.user + times.nice + times.sys + times.idle + times.irq;
    all += sum;
    busy += sum - times.idle;
  }
  return { busy, all };
}

/** Cores in use over a quarter of a second. */
export async function hostCpu(): Promise<Usage> {
  const before = cpuTimes();
  await pause();
  const after = cpuTimes();
  const total = cpus().length;
  const all = after.all - before.all;
  return { used: all > 0 ? ((after.busy - before.busy) / all) * total : 0, total, unit: 'cores' };
}

const groupCpu = () => Number(/usage_usec (\d+)/.exec(read(`${GROUP}/cpu.stat`) ?? '')?.[1] ?? 0);

export async function containerCpu(): Promise<Usage> {
  const before = groupCpu();
  const since = performance.now();
  await pause();
  const used = (groupCpu() - before) / 1000 / (performance.now() - since);
  const [quota, period] = (read(`${GROUP}/cpu.max`) ?? 'max 100000').split(' ');
  return { used, unit: 'cores', ...(quota === 'max' ? {} : { total: Number(quota) / Number(period) }) };
}

export async function hostMemory(): Promise<Usage> {
  const info = read('/proc/meminfo') ?? '';
  const available = /MemAvailable:\s+(\d+) kB/.exec(info)?.[1];
  const free = available === undefined ? freemem() : Number(available) * 1024;
  return { used: totalmem() - free, total: totalmem(), unit: 'B' };
}

export async function containerMemory(): Promise<Usage> {
  const cache = Number(/inactive_file (\d+)/.exec(read(`${GROUP}/memory.stat`) ?? '')?.[1] ?? 0);
  const used = Number(read(`${GROUP}/memory.current`) ?? 0) - cache;
  const max = read(`${GROUP}/memory.max`) ?? 'max';
  return { used, unit: 'B', ...(max === 'max' ? {} : { total: Number(max) }) };
}

export async function disk(path: string): Promise<Usage> {
  const { blocks, bfree, bsize } = await statfs(path);
  return { used: (blocks - bfree) * bsize, total: blocks * bsize, unit: 'B' };
}

/** A size with one decimal, or with three significant digits below 1, where a large unit would show zero. */
function sizeText(size: number): string {
  const decimals = size > 0 && size < 1 ? 2 + Math.ceil(-Math.log10(size)) : 1;
  return size.toFixed(decimals).replace(/\.?0+$/, '');
}

/** `0.5/2 cores (25%)`, `1.2/3.9 GiB (31%)`. */
export function usageText({ used, total, unit }: Usage, prefix = 'Gi'): string {
  const number = (value: number) =>
    unit === 'B' ? sizeText(value / ownValue(UNITS, prefix)!) : String(Number(value.toFixed(2)));
  const label = unit === 'B' ? `${prefix}B` : 'cores';
  if (total === undefined) return `${number(used)} ${label}`;
  return `${number(used)}/${number(total)} ${label} (${total > 0 ? Math.round((used / total) * 100) : 0}%)`;
}
