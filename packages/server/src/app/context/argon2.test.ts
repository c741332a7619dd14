import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { test } from 'node:test';
import { argon2id } from './argon2.ts';

const COST = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };
const SALT = Buffer.from('sixteen bytes of');

test('the threads that hash have a lower priority than the one that answers requests', {
  skip: process.platform === 'linux' ? false : 'only Linux has priorities of threads',
}, async () => {
  const own = getPriority(process.pid);
  // the names of new threads appear when they run
  for (let round = 0; round < 3; round++) await argon2id('correct horse battery', SALT, COST);
  const pool = readdirSync('/proc/self/task').filter(
    (thread) => readFileSync(`/proc/self/task/${thread}/comm`, 'utf8') === 'libuv-worker\n',
  );
  assert.equal(pool.length, 4);
  for (const thread of pool) assert.ok(getPriority(Number(thread)) > own);
  assert.equal(getPriority(process.pid), own);
});
