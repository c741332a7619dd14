import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { silentLogger } from '@platform/kit';
import { eventually } from '@platform/testkit/wait';
import { hashHere } from './argon2.ts';
import { createHashingProcess, type HashingProcess, type HashingProcessOptions } from './process.ts';

const COST = { memory: 1_024, passes: 1, parallelism: 1, tagLength: 32 };
const SALT = Buffer.from('sixteen bytes of');
const ENTRY = fileURLToPath(new URL('./entry.ts', import.meta.url));
const skip = process.platform === 'linux' ? false : 'only Linux has the idle class';
/** Linux's number of the idle class, SCHED_IDLE. */
const IDLE_CLASS = '5';

const made: HashingProcess[] = [];
after(() => Promise.all(made.map((one) => one.close())));

function create(options: Partial<HashingProcessOptions> = {}): HashingProcess {
  const hashing = createHashingProcess({
    command: [process.execPath, ENTRY],
    // in the idle class, it would wait for other tests
    lower: [],
    log: silentLogger,
    atOnce: 1,
    patienceMs: 60_000,
    ...options,
  });
  made.push(hashing);
  return hashing;
}

/** The fields of a process in /proc, from the third on, or undefined if it is gone. */
function stat(pid: number): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
  } catch {
    return undefined;
  }
}

/** The children of this process that hash. */
const hashers = () =>
  readdirSync('/proc/self/task')
    .flatMap((thread) => readFileSync(`/proc/self/task/${thread}/children`, 'utf8').trim().split(' '))
    .filter((pid) => pid !== '' && commandOf(pid).includes(ENTRY))
    .map(Number);

/** Empty if the process is gone. */
function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

/** Starts the process and returns its id. */
async function started(hashing: HashingProcess): Promise<number> {
  await hashing.hash('password', SALT, COST);
  return eventually('the process takes work', () => hashing.pid);
}

test('hashes in a process of its own, which gets nothing of the environment', { skip }, async () => {
  const hashing = create();
  const expected = await hashHere('password', SALT, COST);
  assert.deepEqual(await hashing.hash('password', SALT, COST), expected, 'while it starts');
  const pid = await started(hashing);
  const ticks = () => Number(stat(pid)?.[11]);
  const before = ticks();
  const dear = { ...COST, memory: 19_456, passes: 20 };
  assert.deepEqual(await hashing.hash('password', SALT, dear), await hashHere('password', SALT, dear));
  assert.ok(ticks() > before, 'it used its processor time');
  const names = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .map((entry) => entry.split('=')[0]!);
  const given = [
    'PATH',
    'HOME',
    'XDG_CACHE_HOME',
    'LD_LIBRARY_PATH',
    'NODE_CHANNEL_FD',
    'NODE_CHANNEL_SERIALIZATION_MODE',
    'UV_THREADPOOL_SIZE',
  ];
  assert.deepEqual(
    names.filter((name) => name !== '' && !given.includes(name)),
    [],
  );
  await hashing.close();
  await eventually('it ended', () => stat(pid) === undefined);
});

test('the process is of the idle class', { skip }, async () => {
  const hashing = create({ lower: undefined });
  await hashing.hash('password', SALT, COST);
  await eventually('its class is set', () => hashers().some((pid) => stat(pid)?.[38] === IDLE_CLASS));
  await hashing.close();
});

test('hashes in the server when the process gets no processor, or ends', { skip }, async () => {
  const hashing = create({ patienceMs: 50 });
  const expected = await hashHere('password', SALT, COST);
  const pid = await started(hashing);
  process.kill(pid, 'SIGSTOP');
  assert.deepEqual(await hashing.hash('password', SALT, COST), expected);
  assert.deepEqual(await hashing.hash('password', SALT, COST), expected, 'with the first still open');
  process.kill(pid, 'SIGKILL');
  await eventually('it ended', () => stat(pid) === undefined);
  assert.notEqual(await started(hashing), pid);
  await hashing.close();
});

test('a hash whose process is killed meanwhile is computed in the server', { skip }, async () => {
  const hashing = create();
  const pid = await started(hashing);
  process.kill(pid, 'SIGSTOP');
  const hash = hashing.hash('password', SALT, COST);
  process.kill(pid, 'SIGKILL');
  assert.deepEqual(await hash, await hashHere('password', SALT, COST));
  await hashing.close();
});

test('ends without work', { skip }, async () => {
  const hashing = create({ idleMs: 100 });
  const pid = await started(hashing);
  await eventually('it ended', () => stat(pid) === undefined);
});

test('hashes in the server where the process does not start, after one attempt', async () => {
  const seen: string[] = [];
  const log = { ...silentLogger, debug: (message: string) => void seen.push(message) };
  const hashing = create({ command: ['/does/not/exist'], log });
  const expected = await hashHere('password', SALT, COST);
  assert.deepEqual(await hashing.hash('password', SALT, COST), expected);
  if (process.platform === 'linux') await eventually('it is noticed', () => seen.length > 0);
  assert.deepEqual(await hashing.hash('password', SALT, COST), expected);
  assert.ok(seen.length <= 1);
});
