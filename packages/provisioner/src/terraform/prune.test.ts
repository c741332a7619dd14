import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { pruneDaemonCache } from '../daemon/prune-cache.ts';

const HOUR = 3600_000;
const MIB = 2 ** 20;
const root = await mkdtemp(join(tmpdir(), 'prune-'));
after(() => rm(root, { recursive: true, force: true }));

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(root, 'cache-'));
  await mkdir(join(dir, 'tf/versions'), { recursive: true });
});

const aged = async (path: string, hours: number) => {
  const time = new Date(Date.now() - hours * HOUR);
  await utimes(path, time, time);
};

/** A package of 1 MiB that nobody touched for four days. */
async function provider(name: string): Promise<string> {
  const path = join(dir, 'tf/plugins/by-content/ab', name, '1.0.0/linux_amd64');
  await mkdir(path, { recursive: true });
  await writeFile(join(path, 'program'), Buffer.alloc(MIB));
  await aged(path, 96);
  return path;
}

async function version(name: string, usedHours: number, providers: string[]): Promise<string> {
  const path = join(dir, 'tf/versions', name);
  await mkdir(path);
  for (const [at, target] of providers.entries()) {
    const link = join(path, `.terraform/providers/host/acme/p${at}/1.0.0/linux_amd64`);
    await mkdir(dirname(link), { recursive: true });
    await symlink(target, link);
  }
  await writeFile(join(path, 'meta.json'), '{}');
  await aged(join(path, 'meta.json'), usedHours);
  return path;
}

const present = (...paths: string[]) => paths.map((path) => existsSync(path));

test('removes what nobody used for the given time, except what a session holds', async () => {
  const [only, shared] = [await provider('only'), await provider('shared')];
  const old = await version('old', 72, [only, shared]);
  const held = await version('held', 72, []);
  const recent = await version('recent', 1, [shared]);
  const session = join(dir, 'provisioner-a/work/Session1/template');
  await mkdir(session, { recursive: true });
  await symlink(join(held, '.terraform'), join(session, '.terraform'));
  const policy = { unusedMs: 48 * HOUR };
  const planned = await pruneDaemonCache(dir, { ...policy, dryRun: true });
  assert.deepEqual(present(old, only), [true, true]);
  assert.deepEqual(await pruneDaemonCache(dir, policy), planned);
  assert.deepEqual([planned.versions, planned.packages], [1, 1]);
  assert.ok(planned.freed >= MIB && planned.left >= MIB, JSON.stringify(planned));
  assert.deepEqual(present(old, only, held, recent, shared), [false, false, true, true, true]);
});

test('removes the versions that were used longest ago until the cache has the given size', async () => {
  const packages = await Promise.all(['a', 'b', 'c'].map(provider));
  const versions = await Promise.all(packages.map((path, at) => version(`v${at}`, 30 - at, [path])));
  const { freed, left } = await pruneDaemonCache(dir, { mostBytes: 1.5 * MIB });
  assert.ok(left <= 1.5 * MIB && freed >= 2 * MIB, `${freed} ${left}`);
  assert.deepEqual(present(...versions, ...packages), [false, false, true, false, false, true]);
});

test('removes what a killed daemon left half-made, but not what one is making', async () => {
  const halves = [join(dir, 'tf/plugins/by-content/.dead'), join(dir, 'tf/plugins/by-content/.alive')];
  for (const path of halves) await mkdir(path, { recursive: true });
  await aged(halves[0]!, 1);
  await pruneDaemonCache(dir, { mostBytes: 0 });
  assert.deepEqual(present(...halves), [false, true]);
});

test('rejects a folder that is not a cache directory', async () => {
  await assert.rejects(pruneDaemonCache(root, { unusedMs: 1 }), /is not the cache directory of a provisioner daemon/);
});
