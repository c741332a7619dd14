import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { processIds } from '@ropewalk/testkit/processes';
import { makeKey, startDaemon } from './daemon-process.ts';
import {
  commandTemplate,
  eventually,
  firstUser,
  importEnds,
  postVersion,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';
import { type HeldStatement, heldStatement } from './held-statement.ts';

// Kills a daemon, or the server of built-in daemons, while the daemons start.

let server: ServerProcess;
let sql: Sql;
before(async () => {
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0', CODER_PROVISIONER_LEASE: '15s' } });
  await firstUser(server);
  sql = connect(server.databaseUrl!, { max: 2 });
});
after(async () => {
  await sql?.end();
  await server?.stop();
});

test('built-in daemons end when their server is killed while they start', { timeout: 60_000 }, async () => {
  const own = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '1' }, expectFailure: true });
  try {
    const pid = await own.daemonsPid();
    process.kill(pid, 'SIGSTOP');
    await own.kill();
    process.kill(pid, 'SIGCONT');
    await eventually('the daemons have ended', () => !processIds().includes(pid), 20_000).catch((err) => {
      process.kill(pid, 'SIGKILL');
      throw err;
    });
  } finally {
    await own.stop();
  }
});

/** The status that people see. Undefined: the daemon is not in the list. */
async function statusOf(name: string): Promise<string | undefined> {
  const path = '/organizations/default/provisionerdaemons';
  const { body } = await server.api<{ name: string; status: string }[]>('GET', path);
  return body.find((row) => row.name === name)?.status;
}

for (const moment of ['before it registers', 'before its first job', 'in the middle of the claim'] as const) {
  test(`after kill -9 of a daemon ${moment}, another daemon runs the job`, async () => {
    const name = moment.replaceAll(' ', '-');
    const env = { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, name, { way: name }) };
    const post = async () => (await postVersion(server, commandTemplate('true'), { tags: { way: name } })).id;
    let version: string | undefined;
    let claim: HeldStatement | undefined;
    // the daemon asks for the version before it registers
    const [held, path] = [join(server.configDir, 'held'), join(server.configDir, 'terraform')];
    writeFileSync(path, `#!/bin/sh\necho $$ > ${held}\nexec sleep 1000\n`, { mode: 0o755 });
    const args = moment === 'before it registers' ? ['--terraform-binary', path] : [];
    const first = await startDaemon(server, { name, env, args, early: true });
    try {
      if (moment === 'before it registers') {
        await eventually('it asks for the version', () => existsSync(held) && readFileSync(held, 'utf8') !== '');
        assert.equal(await statusOf(name), undefined);
      } else await eventually('it is registered', async () => (await statusOf(name)) === 'idle');
      if (moment === 'in the middle of the claim') {
        claim = await heldStatement(sql, 'provisioner_jobs', 'OLD.worker_id IS NULL AND NEW.worker_id IS NOT NULL');
        version = await post();
        await claim.waits();
      }
      await first.kill();
      await eventually('it is offline', async () => ['offline', undefined].includes(await statusOf(name)), 10_000);
      await claim?.go();
      version ??= await post();
      const second = await startDaemon(server, { name: `${name}-other`, env });
      const { job } = await importEnds(server, version);
      assert.equal(job.status, 'succeeded', `${job.error}\n${second.log()}`);
      await second.kill();
    } finally {
      await claim?.go();
      await first.kill();
      if (existsSync(held)) process.kill(Number(readFileSync(held, 'utf8')), 'SIGKILL');
      rmSync(held, { force: true });
    }
  });
}
