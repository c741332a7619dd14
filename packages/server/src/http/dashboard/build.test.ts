import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { createDashboard } from './build.ts';

const PACK = join(import.meta.dirname, 'pack.ts');

/** A checkout with a few sources, and a build command that counts its runs. */
let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'checkout-'));
  source('packages/dashboard/src/main.ts', '1');
  source('package-lock.json', '{}');
  source(
    'build.ts',
    `import { appendFileSync, readFileSync } from 'node:fs';
     import { writePack } from ${JSON.stringify(PACK)};
     appendFileSync('runs', 'x');
     await new Promise((resolve) => setTimeout(resolve, 300));
     const text = readFileSync('packages/dashboard/src/main.ts', 'utf8');
     if (text === 'broken') { console.error('cannot parse'); process.exit(1); }
     writePack(process.argv[2]!, new Map([['/index.html', Buffer.from(text)]]), {}, { quality: () => 1 });`,
  );
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function source(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

const dashboard = () =>
  createDashboard({ log: silentLogger, root, command: [process.execPath, join(root, 'build.ts')] });
const runs = () => readFileSync(join(root, 'runs'), 'utf8').length;
const page = async (of = dashboard()) => (await of.files()).get('/index.html')!.body('').bytes.toString();
const builds = () => readdirSync(join(root, 'packages/dashboard/dist'));

test('builds once for each state of the sources, with several servers at the same time', async () => {
  assert.deepEqual(await Promise.all([page(), page(), page()]), ['1', '1', '1']);
  assert.equal(await page(), '1');
  assert.equal(runs(), 1);
  source('packages/dashboard/src/main.test.ts', 'tests do not count');
  assert.equal(await page(), '1');
  assert.equal(runs(), 1);
  source('packages/dashboard/src/main.ts', '2');
  assert.equal(await page(), '2');
  assert.equal(runs(), 2);
  assert.equal(builds().length, 2);
});

test('removes builds that were not used for a day', async () => {
  await page();
  const [old] = builds();
  const dir = join(root, 'packages/dashboard/dist', old!);
  const before = new Date(Date.now() - 25 * 3_600_000);
  utimesSync(dir, before, before);
  source('packages/dashboard/src/main.ts', '2');
  await page();
  assert.equal(builds().length, 1);
  assert.ok(!builds().includes(old!));
});

test('takes over from a build that was killed', async () => {
  await page();
  const [hash] = builds();
  rmSync(join(root, 'packages/dashboard/dist', hash!), { recursive: true });
  const lock = join(root, 'packages/dashboard/dist', `${hash}.lock`);
  writeFileSync(lock, '');
  const before = new Date(Date.now() - 60_000);
  utimesSync(lock, before, before);
  assert.equal(await page(), '1');
  assert.deepEqual(builds(), [hash]);
});

test('reports a failed build, leaves nothing behind, and ends a running one', async () => {
  source('packages/dashboard/src/main.ts', 'broken');
  const failing = dashboard();
  await assert.rejects(failing.files(), { code: 'unavailable' });
  await assert.rejects(failing.files(), { code: 'unavailable' });
  assert.equal(runs(), 1);
  assert.deepEqual(builds(), []);
  source('packages/dashboard/src/main.ts', 'slow');
  const closing = dashboard();
  const asked = closing.files();
  asked.catch(() => {});
  await closing.close();
  await assert.rejects(asked, { code: 'unavailable' });
  assert.deepEqual(builds(), []);
});
