import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Clock, silentLogger, systemClock } from '@ropewalk/kit';
import { freshDatabase } from '@ropewalk/testkit';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { connect, type Sql } from '../db/connect.ts';
import { createBackgroundDriver } from './driver.ts';

const HOUR = 3_600_000;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let sql: Sql;
before(async () => {
  database = await freshDatabase();
  sql = connect(database.url);
});
after(async () => {
  await sql.end();
  await database.drop();
});

const driver = (clock: Clock = systemClock) => createBackgroundDriver({ locks: sql, clock, log: silentLogger });
/** A task that counts its runs; `of` waits for the nth. */
function counting(more: Partial<BackgroundTask> = {}) {
  let runs = 0;
  const waiting: [number, () => void][] = [];
  const task: BackgroundTask = {
    name: 'count',
    periodMs: HOUR,
    needsLock: false,
    ...more,
    async run(signal) {
      runs += 1;
      for (const [n, resolve] of waiting) if (runs >= n) resolve();
      return more.run?.(signal);
    },
  };
  const reached = (n: number) => new Promise<void>((resolve) => (runs >= n ? resolve() : waiting.push([n, resolve])));
  return { task, reached, runs: () => runs };
}

test('runs a task when it is added, after its period, and earlier where a run asks for it', async () => {
  const tasks = driver();
  const often = counting({ name: 'often', periodMs: 1 });
  const early = counting({ name: 'early', run: async () => 1 });
  const seldom = counting({ name: 'seldom' });
  for (const { task } of [often, early, seldom]) tasks.add(task);
  await Promise.all([often.reached(3), early.reached(3), seldom.reached(1)]);
  await tasks.close();
  assert.equal(seldom.runs(), 1);
});

test('tasks of a group run one after the other', async () => {
  const tasks = driver();
  let [running, most] = [0, 0];
  const all = ['one', 'two', 'three'].map((name) =>
    counting({
      name,
      group: 'g',
      needsLock: true,
      timeoutMs: 10_000,
      async run() {
        most = Math.max(most, ++running);
        await sql`SELECT 1`;
        running--;
        if (name === 'one') throw new Error('no');
        return undefined;
      },
    }),
  );
  for (const { task } of all) tasks.add(task);
  await Promise.all(all.map(({ reached }) => reached(1)));
  await tasks.close();
  assert.equal(most, 1);
});

test('tasks hold their locks on other connections than those that they work with', async () => {
  const work = connect(database.url, { max: 2 });
  const tasks = driver();
  const all = Promise.withResolvers<void>();
  let running = 0;
  const three = ['one', 'two', 'three'].map((name) =>
    counting({
      name,
      needsLock: true,
      timeoutMs: 10_000,
      async run() {
        if (++running === 3) all.resolve();
        await all.promise;
        await work`SELECT 1`;
        return undefined;
      },
    }),
  );
  for (const { task } of three) tasks.add(task);
  await Promise.all(three.map(({ task }) => tasks.runNow(task.name)));
  assert.deepEqual(
    tasks.status().map(({ error }) => error),
    [undefined, undefined, undefined],
  );
  await tasks.close();
  await work.end();
});

test('events that come together start one run, after the time in which they gather', async () => {
  const tasks = driver();
  let wake = () => {};
  const wakeOn: BackgroundTask['wakeOn'] = (given) => {
    wake = given;
    return [];
  };
  const task = counting({ gatherMs: 50, wakeOn });
  tasks.add(task.task);
  await task.reached(1);
  const from = performance.now();
  for (let event = 0; event < 10; event++) {
    wake();
    await new Promise(setImmediate);
  }
  await task.reached(2);
  assert.ok(performance.now() - from > 45);
  wake();
  await task.reached(3);
  assert.equal(task.runs(), 3);
  wake();
  await tasks.close();
});

test('a wake-up during a run starts exactly one more', async () => {
  const tasks = driver();
  const gate = Promise.withResolvers<undefined>();
  let wake = () => {};
  let off = false;
  const task = counting({
    wakeOn: (given) => {
      wake = given;
      return [
        () => {
          off = true;
        },
      ];
    },
    run: () => gate.promise,
  });
  tasks.add(task.task);
  await task.reached(1);
  wake();
  wake();
  gate.resolve(undefined);
  await task.reached(2);
  await tasks.close();
  wake();
  assert.equal(task.runs(), 2);
  assert.ok(off, 'the subscription has ended');
});

test('repeats a failed run after its retry time', async () => {
  const tasks = driver();
  const failing = counting({
    retryMs: 1,
    run: async () => {
      throw new Error('not now');
    },
  });
  tasks.add(failing.task);
  await failing.reached(3);
  await tasks.close();
});

test('reports the last run, its duration and its error, and goes on after a failure', async () => {
  const tasks = driver();
  let broken = true;
  const task = counting({
    run: async () => {
      if (broken) throw new Error('the disk is full');
      return undefined;
    },
  });
  tasks.add(task.task);
  await tasks.runNow('count');
  const [failed] = tasks.status();
  assert.equal(failed!.error, 'the disk is full');
  assert.deepEqual(failed!.runs, { succeeded: 0, failed: 2, skipped: 0 });
  broken = false;
  await tasks.runNow('count');
  const [fine] = tasks.status();
  assert.equal(fine!.error, undefined);
  assert.ok(fine!.lastRun instanceof Date && fine!.durationMs >= 0);
  await tasks.close();
});

test('aborts a run that takes too long, and reports it', async () => {
  const tasks = driver();
  let aborted = false;
  const task = counting({
    timeoutMs: 20,
    run: (signal) => {
      signal.addEventListener('abort', () => {
        aborted = true;
      });
      return new Promise(() => {});
    },
  });
  tasks.add(task.task);
  await tasks.runNow('count');
  assert.ok(aborted);
  assert.match(tasks.status()[0]!.error!, /longer than 20 ms/);
  await tasks.close();
});

test('one server at a time runs a task that needs the lock', async () => {
  const [first, second] = [driver(), driver()];
  const gate = Promise.withResolvers<undefined>();
  const held = counting({ needsLock: true, run: () => gate.promise });
  const other = counting({ needsLock: true });
  first.add(held.task);
  await held.reached(1);
  second.add(other.task);
  await second.runNow('count');
  assert.equal(other.runs(), 0);
  assert.equal(second.status()[0]!.runs.skipped, 2);
  gate.resolve(undefined);
  await first.runNow('count');
  await first.close();
  await second.runNow('count');
  assert.equal(other.runs(), 1);
  await second.close();
});

test('reports why a task lost its lock, and repeats it', { timeout: 20_000 }, async () => {
  const tasks = driver();
  const { task, reached } = counting({
    name: 'hanging',
    needsLock: true,
    retryMs: 10,
    run: (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  });
  tasks.add(task);
  await reached(1);
  // as PostgreSQL does when the server that holds the lock hangs
  await sql`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = hashtext('hanging')::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  await reached(2);
  const [status] = tasks.status();
  await tasks.close();
  assert.match(status!.error!, /^It lost its lock\. .*did not run for 2 seconds/);
  assert.equal(status!.runs.failed, 1);
});

test('closes immediately and ends running tasks', async () => {
  const tasks = driver();
  const task = counting({ run: () => new Promise(() => {}) });
  tasks.add(task.task);
  await task.reached(1);
  await tasks.close();
  assert.equal(tasks.status()[0]!.runs.failed, 0);
});
