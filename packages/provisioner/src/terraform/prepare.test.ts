import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readlink, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { checkBackend } from './backend.ts';
import { findTerraform } from './binary.ts';
import { inheritedEnv } from './env.ts';
import { archiveModules, readModules } from './modules.ts';
import { VersionCache } from './prepare.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'prep-'));
  await writeFile(join(dir, 'rc'), '');
});
after(() => rm(dir, { recursive: true, force: true }));

const DAY = 24 * 3600;

test('initializes a version once, links it into each session, and removes it when nobody uses it', async () => {
  let versions = new VersionCache({ cacheDir: join(dir, 'cache'), log: silentLogger });
  const env = { ...inheritedEnv(process.env), TF_CLI_CONFIG_FILE: join(dir, 'rc') };
  const terraform = await findTerraform({ env, log: silentLogger });
  let graphs = 0;
  const prepare = async (name: string) => {
    const session = join(dir, name);
    await mkdir(join(session, 'inner'), { recursive: true });
    await writeFile(join(session, 'main.tf'), 'module "m" { source = "./inner" }\n');
    await writeFile(join(session, 'inner/main.tf'), 'locals { daily_cost = 1 }\n');
    return versions.prepare({
      dir: session,
      archiveHash: 'abc',
      terraform,
      env,
      attachProvider: true,
      signal: new AbortController().signal,
      onLog: () => {},
      graph: async () => {
        graphs++;
        return 'digraph {}';
      },
    });
  };
  const [first, second] = await Promise.all([prepare('one'), prepare('two')]);
  assert.deepEqual([first.fresh !== second.fresh, graphs], [true, 1]);
  assert.deepEqual([first.costs, second.costs], [true, true]);
  const [key] = await readdir(join(dir, 'cache/versions'));
  for (const name of ['one', 'two']) {
    assert.equal(await readlink(join(dir, name, '.terraform')), join(dir, 'cache/versions', key!, '.terraform'));
    assert.deepEqual(
      (await readModules(join(dir, name))).map((module) => module.source),
      ['./inner'],
    );
  }
  for (const name of ['meta.json', 'graph.dot']) {
    // as after a loss of power, and a restart of the daemon
    await truncate(join(dir, 'cache/versions', key!, name));
    versions = new VersionCache({ cacheDir: join(dir, 'cache'), log: silentLogger });
    assert.equal((await prepare(`${name}-damaged`)).fresh, true);
    assert.equal((await prepare(`${name}-again`)).fresh, false);
    assert.ok(existsSync(join(dir, `${name}-again`, '.terraform/modules/modules.json')));
  }
  await versions.sweep();
  assert.equal((await readdir(join(dir, 'cache/versions'))).length, 1);
  const old = new Date(Date.now() - 31 * DAY * 1000);
  await utimes(join(dir, 'cache/versions', key!, 'meta.json'), old, old);
  const plugin = join(dir, 'cache/plugins/host/ns/type/1.0.0/linux_amd64');
  await mkdir(plugin, { recursive: true });
  await utimes(plugin, old, old);
  await versions.sweep();
  assert.deepEqual(await readdir(join(dir, 'cache/versions')), []);
  assert.deepEqual(await readdir(join(dir, 'cache/plugins/host/ns/type/1.0.0')), []);
  assert.equal((await prepare('three')).fresh, true);
});

test('archives fetched modules without .git and without local modules, with the same bytes each time', async () => {
  const template = join(dir, 'modules');
  const manifest = (...dirs: string[]) =>
    writeFile(
      join(template, '.terraform/modules/modules.json'),
      JSON.stringify({ Modules: dirs.map((Dir, i) => ({ Key: `k${i}`, Source: 'git::x', Version: '1.0.0', Dir })) }),
    );
  await mkdir(join(template, '.terraform/modules/far/.git'), { recursive: true });
  await writeFile(join(template, '.terraform/modules/far/main.tf'), 'x');
  await writeFile(join(template, '.terraform/modules/far/.git/config'), 'secret');
  await manifest('inner');
  assert.equal(await archiveModules(template), undefined);
  await manifest('inner', '.terraform/modules/far', '.terraform/modules/far/sub');
  const one = await archiveModules(template);
  const two = await archiveModules(template);
  assert.deepEqual(one?.hash, two?.hash);
  const text = Buffer.from(one!.archive).toString('latin1');
  assert.match(text, /\.terraform\/modules\/far\/main\.tf/);
  assert.match(text, /modules\.json/);
  assert.doesNotMatch(text, /\.git\/config/);
  assert.deepEqual((await readModules(template)).length, 3);
  await writeFile(join(template, '.terraform/modules/far/big'), Buffer.alloc((20 << 20) + 1));
  await writeFile(join(template, 'main.tf'), 'locals {}\nmodule "k1" {\n  source = "git::x"\n}\n');
  await assert.rejects(
    archiveModules(template),
    /larger than 20 MiB: module "k1" at main\.tf:2 \(source "git::x"\) has 20\.0 MiB or more/,
  );
});

test('limits the time of an init, and does not wait for processes that an init left with its output', async () => {
  const options = { cacheDir: join(dir, 'slow'), log: silentLogger };
  const [versions, impatient] = [new VersionCache(options), new VersionCache({ ...options, initMs: 500 })];
  const prepare = async (name: string, script: string, by = versions) => {
    const session = join(dir, name);
    await mkdir(session);
    const path = join(dir, `${name}.sh`);
    await writeFile(path, `#!/bin/sh\n[ "$1" = init ] || exit 1\n${script}\n`, { mode: 0o755 });
    return by.prepare({
      dir: session,
      archiveHash: name,
      terraform: { path, version: '1.11.0', engine: 'terraform' },
      env: { PATH: process.env['PATH'] ?? '' },
      attachProvider: true,
      signal: new AbortController().signal,
      onLog: () => {},
      graph: async () => 'digraph {}',
    });
  };
  const slow = assert.rejects(
    prepare('hangs', 'exec sleep 600', impatient),
    /initialize terraform: it takes more than/,
  );
  assert.equal((await prepare('leaves', 'sleep 600 &')).fresh, true);
  await slow;
});

test('a version whose providers do not answer blocks neither other versions nor a canceled job', async () => {
  const versions = new VersionCache({ cacheDir: join(dir, 'graph'), log: silentLogger });
  const path = join(dir, 'init.sh');
  await writeFile(path, '#!/bin/sh\n[ "$1" = init ]\n', { mode: 0o755 });
  const reached = Promise.withResolvers<void>();
  const prepare = async (name: string, archiveHash: string, signal: AbortSignal, graph: Promise<string>) => {
    await mkdir(join(dir, name));
    return versions.prepare({
      dir: join(dir, name),
      archiveHash,
      terraform: { path, version: '1.11.0', engine: 'terraform' },
      env: { PATH: process.env['PATH'] ?? '' },
      attachProvider: false,
      signal,
      onLog: () => {},
      graph: () => {
        reached.resolve();
        return graph;
      },
    });
  };
  const never = Promise.withResolvers<string>();
  const { signal } = new AbortController();
  const hangs = prepare('graph-hangs', 'a', signal, never.promise);
  // only then does the next one wait for it, and not the other way round
  await reached.promise;
  const other = new AbortController();
  const waits = assert.rejects(prepare('graph-waits', 'a', other.signal, never.promise), /left/);
  assert.equal((await prepare('graph-other', 'b', signal, Promise.resolve('digraph {}'))).fresh, true);
  other.abort(new Error('left'));
  await waits;
  never.resolve('digraph {}');
  assert.equal((await hangs).fresh, true);
});

test('after a kill during an init, removes downloads that no prepared version uses', async () => {
  const cacheDir = join(dir, 'killed');
  const packageOf = (name: string) => join(cacheDir, 'plugins/host/acme', name, '1.0.0/linux_amd64');
  for (const name of ['half', 'whole']) {
    await mkdir(packageOf(name), { recursive: true });
    await writeFile(join(packageOf(name), 'program'), '');
  }
  const link = join(cacheDir, 'versions/some/.terraform/providers/host/acme/whole/1.0.0');
  await mkdir(link, { recursive: true });
  await symlink(packageOf('whole'), join(link, 'linux_amd64'));
  const path = join(dir, 'init-after-kill.sh');
  // init requires the marker
  const marker = join(cacheDir, 'plugins/.init');
  await writeFile(path, `#!/bin/sh\n[ "$1" != init ] || [ -e '${marker}' ]\n`, { mode: 0o755 });
  const prepare = async (name: string) => {
    await mkdir(join(dir, name));
    const { fresh } = await new VersionCache({ cacheDir, log: silentLogger }).prepare({
      dir: join(dir, name),
      archiveHash: name,
      terraform: { path, version: '1.11.0', engine: 'terraform' },
      env: { PATH: process.env['PATH'] ?? '' },
      attachProvider: false,
      signal: new AbortController().signal,
      onLog: () => {},
      graph: async () => 'digraph {}',
    });
    assert.ok(fresh);
  };
  await prepare('before-kill');
  assert.deepEqual([existsSync(marker), existsSync(packageOf('half'))], [false, true]);
  await writeFile(marker, '');
  await prepare('after-kill');
  assert.deepEqual([existsSync(marker), existsSync(packageOf('half'))], [false, false]);
  assert.ok(existsSync(packageOf('whole')));
});

test('reads the backend of the state only from a regular file', { timeout: 10_000 }, async () => {
  const template = join(dir, 'backend');
  await mkdir(join(template, '.terraform'), { recursive: true });
  const path = join(template, '.terraform/terraform.tfstate');
  const owner = process.getuid?.();
  checkBackend(template, owner);
  spawnSync('mkfifo', [path]);
  assert.throws(() => checkBackend(template, owner), /Cannot read which backend .* not a regular file/);
  await rm(path);
  await symlink(join(dir, 'rc'), path);
  assert.throws(() => checkBackend(template, owner), /Cannot read which backend/);
  await rm(path);
  await writeFile(path, '{');
  assert.throws(() => checkBackend(template, owner), /Cannot read which backend/);
  await writeFile(path, JSON.stringify({ backend: { type: 's3' } }));
  assert.throws(() => checkBackend(template, owner), /the backend "s3"/);
});
