import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { test } from 'node:test';
import { deriveInNode, hashPassword, verifyPassword } from './password.ts';

test('a hash verifies its own password only', async () => {
  const hash = await hashPassword('correct horse battery');
  assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  assert.equal(await verifyPassword(hash, 'correct horse battery'), true);
  assert.equal(await verifyPassword(hash, 'correct horse batterz'), false);
  assert.equal(await verifyPassword('', ''), false, 'a user without a password');
});

test('Node’s own implementation, which other systems use, makes the same hash', async () => {
  const [, , , , salt, hash] = (await hashPassword('pässword 🐎')).split('$');
  const cost = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };
  const again = await deriveInNode('pässword 🐎', Buffer.from(salt!, 'base64'), cost);
  assert.equal(again.toString('base64').replace(/=+$/, ''), hash);
});

test('the threads that hash have a lower priority than the one that answers requests', {
  skip: process.platform === 'linux' ? false : 'only Linux has priorities of threads',
}, async () => {
  const own = getPriority(process.pid);
  // the names of new threads appear when they run
  for (let round = 0; round < 3; round++) await hashPassword('correct horse battery');
  const pool = readdirSync('/proc/self/task').filter(
    (thread) => readFileSync(`/proc/self/task/${thread}/comm`, 'utf8') === 'libuv-worker\n',
  );
  assert.equal(pool.length, 4);
  for (const thread of pool) assert.ok(getPriority(Number(thread)) > own);
  assert.equal(getPriority(process.pid), own);
});
