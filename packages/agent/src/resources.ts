import { readFile, statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { Notifier } from './notifier.ts';
import type { Routine } from './wire-types.ts';

interface Usage {
  used: bigint;
  total: bigint;
}

async function numberIn(path: string): Promise<number | undefined> {
  try {
    const value = Number((await readFile(path, 'utf8')).trim());
    return Number.isFinite(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The memory of the container if it has a limit (cgroup 2, then 1), else of the machine. Caches count as free. */
export async function memoryUsage(): Promise<Usage> {
  const machine = totalmem();
  for (const [limitPath, usedPath, statPath, inactive] of [
    ['memory.max', 'memory.current', 'memory.stat', 'inactive_file'],
    ['memory/memory.limit_in_bytes', 'memory/memory.usage_in_bytes', 'memory/memory.stat', 'total_inactive_file'],
  ] as const) {
    const limit = await numberIn(`/sys/fs/cgroup/${limitPath}`);
    const used = await numberIn(`/sys/fs/cgroup/${usedPath}`);
    if (limit === undefined || used === undefined || limit <= 0 || limit > machine) continue;
    const stat = await readFile(`/sys/fs/cgroup/${statPath}`, 'utf8').catch(() => '');
    const cached = Number(new RegExp(`^${inactive} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
    return { used: BigInt(Math.max(0, used - cached)), total: BigInt(limit) };
  }
  const available = /^MemAvailable:\s+(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'utf8').catch(() => ''));
  const free = available ? Number(available[1]) * 1024 : 0;
  return { used: BigInt(Math.max(0, machine - free)), total: BigInt(machine) };
}

async function volumeUsage(path: string): Promise<Usage> {
  const { blocks, bfree, bavail, bsize } = await statfs(path);
  // Like df: space reserved for root counts neither as used nor as available.
  const used = (blocks - bfree) * bsize;
  return { used: BigInt(used), total: BigInt(used + bavail * bsize) };
}

/**
 * Measures memory and disks as the server configured, and pushes the last points at each interval once there are
 * enough.
 */
export const reportResources: Routine = async (client, signal) => {
  const { config, memory, volumes } = await client.getResourcesMonitoringConfiguration({}, { signal });
  const wanted = volumes.filter((volume) => volume.enabled);
  if (!config || config.numDatapoints < 1 || (!memory?.enabled && wanted.length === 0)) return;
  const intervalMs = Math.max(1, config.collectionIntervalSeconds) * 1_000;
  const timer = new Notifier();
  const points: object[] = [];
  for (;;) {
    const measured = await Promise.all(
      wanted.map(async ({ path }) => ({ volume: path, ...(await volumeUsage(path).catch(() => undefined)) })),
    );
    points.push({
      collectedAt: timestampNow(),
      ...(memory?.enabled ? { memory: await memoryUsage() } : {}),
      volumes: measured.filter((volume) => volume.total !== undefined),
    });
    if (points.length > config.numDatapoints) points.shift();
    if (points.length === config.numDatapoints) {
      await client.pushResourcesMonitoringUsage({ datapoints: points }, { signal });
    }
    await timer.wait(signal, intervalMs);
  }
};
