import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { smallDisk } from '@ropewalk/testkit/disk';
import { AcquiredJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { tarOf } from '../testing/harness.ts';
import { Session } from './session.ts';

/** The session of a daemon that has died. */
async function deadSession(workDir: string): Promise<string> {
  const { dir } = await Session.create(workDir, create(AcquiredJobSchema, { jobId: crypto.randomUUID() }), 1n);
  const path = join(dir, 'journal.json');
  const owner = { pid: spawnSync('true').pid, startTime: '1' };
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), owner, phase: 'apply' }));
  return dir;
}

test('a daemon adopts a session whose claim is damaged', async (t) => {
  const workDir = mkdtempSync(join(tmpdir(), 'journal-'));
  t.after(() => rmSync(workDir, { recursive: true }));
  const problems: string[] = [];
  const adopt = () =>
    Session.adoptAll(
      workDir,
      (_, why) => void problems.push(why),
      () => false,
    );
  const dir = await deadSession(workDir);
  const { owner } = JSON.parse(readFileSync(join(dir, 'journal.json'), 'utf8')) as { owner: { pid: number } };
  writeFileSync(join(dir, `claim-${owner.pid}-1`), '');
  assert.deepEqual([(await adopt()).map((one) => one.dir), problems], [[dir], []]);
  assert.deepEqual(await adopt(), [], 'once');
});

test('a daemon adopts a session once its full disk has room again', async (t) => {
  const disk = smallDisk(256);
  if (typeof disk === 'string') return t.skip(disk);
  t.after(() => disk.remove());
  const workDir = join(disk.dir, 'work');
  const adopt = () =>
    Session.adoptAll(
      workDir,
      () => {},
      () => false,
    );
  const dir = await deadSession(workDir);
  // room for neither the claim nor the journal, and then for the claim alone
  for (const pages of [0, 1]) {
    disk.fill();
    const ballast = join(disk.dir, '.ballast');
    truncateSync(ballast, statSync(ballast).size - pages * 4096);
    assert.deepEqual(await adopt(), [], `${pages}`);
    disk.empty();
    assert.deepEqual(
      readdirSync(dir).filter((name) => !['job.bin', 'journal.json'].includes(name)),
      [],
      'nothing is left',
    );
  }
  assert.equal((await adopt())[0]?.dir, dir);
});

test('leaves states and what init makes out of a template', async (t) => {
  const workDir = mkdtempSync(join(tmpdir(), 'session-'));
  t.after(() => rmSync(workDir, { recursive: true }));
  const session = await Session.create(workDir, create(AcquiredJobSchema, { jobId: crypto.randomUUID() }), 1n);
  const archive = await tarOf({
    'main.tf': '',
    'terraform.tfstate': '{}',
    '.terraform.lock.hcl': '',
    '.terraform/modules/modules.json': '{}',
    'modules/a/main.tf': '',
  });
  assert.deepEqual(await session.unpack(archive), []);
  assert.deepEqual(readdirSync(session.templateDir).sort(), ['.terraform.lock.hcl', 'main.tf', 'modules']);
});
