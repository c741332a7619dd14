import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ProvisionerDaemon, ProvisionerJob, ProvisionerKey } from '@ropewalk/contract';
import { forgetDaemonGroups } from '@ropewalk/server/app/job/waiting';
import { verifiedDaemon } from '@ropewalk/server/authz/proofs';
import { BUILT_IN_KEY_ID, upsertDaemon } from '@ropewalk/server/db/queries/daemons';
import { acquireJob } from '@ropewalk/server/db/queries/job-queue';
import { createTestTemplate, insertPerson, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const UNTAGGED = { scope: 'organization', owner: '' };

function coder(line: string[], env: Record<string, string> = {}, stdin = '') {
  return invoke(line, { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken, ...env }, stdin);
}

/** A command that must succeed; what it printed. */
async function out(...line: string[]): Promise<string> {
  const { code, stdout, stderr } = await coder(line);
  assert.equal(code, 0, `${line.join(' ')}: ${stderr}`);
  return stdout;
}
const json = async <T>(...line: string[]) => JSON.parse(await out(...line, '-o', 'json')) as T;

test('creates, lists and deletes keys', async () => {
  const none = await coder(['provisioner', 'keys', 'list']);
  assert.deepEqual([none.code, none.stdout, none.stderr], [0, '', 'No provisioner keys found.\n']);
  assert.deepEqual(await json('provisioner', 'keys', 'list'), []);

  const made = await out('provisioner', 'keys', 'create', 'fra', '-O', 'default', '-t', 'site=fra', '--tag', 'gpu=a=b');
  const [, key] =
    /^Successfully created provisioner key fra! Save this authentication token, it will not be shown again\.\n\n([0-9A-Za-z]{43})\n$/.exec(
      made,
    ) ?? [];
  assert.ok(key, made);
  const { status } = await server.api('GET', '/provisionerkeys/x', {
    token: null,
    headers: { 'Coder-Provisioner-Daemon-Key': key },
  });
  assert.equal(status, 200);
  const viaEnv = await coder(['provisioners', 'key', 'create', 'muc'], { CODER_PROVISIONERD_TAGS: 'site=muc,cpu=arm' });
  assert.equal(viaEnv.code, 0, viaEnv.stderr);

  const keys = await json<ProvisionerKey[]>('provisioner', 'keys', 'ls');
  assert.deepEqual(
    keys.map(({ name, tags }) => [name, tags]),
    [
      ['fra', { site: 'fra', gpu: 'a=b' }],
      ['muc', { site: 'muc', cpu: 'arm' }],
    ],
  );
  const table = await out('provisioner', 'keys', 'list');
  assert.match(table, /^CREATED AT +NAME +TAGS\n\d{4}-\S+ +fra +gpu=a=b site=fra\n\S+ +muc +cpu=arm site=muc\n$/);
  assert.equal(await out('provisioner', 'keys', 'list', '-c', 'name'), 'NAME\nfra\nmuc\n');

  const unasked = await coder(['provisioner', 'keys', 'delete', 'fra']);
  assert.equal(unasked.code, 1);
  assert.match(unasked.stderr, /--yes/);
  assert.equal(await out('provisioner', 'keys', 'delete', 'fra', '-y'), 'Successfully deleted provisioner key fra!\n');
  assert.equal(await out('provisioner', 'keys', 'rm', 'MUC', '--yes'), 'Successfully deleted provisioner key MUC!\n');
  assert.deepEqual(await json('provisioner', 'keys', 'list'), []);
});

test('explains errors in one sentence', async () => {
  const member = await insertPerson(server, 'member');
  const cases: [string[], RegExp, Record<string, string>?][] = [
    [['create', 'psk'], /reserved/],
    [['create', 'x'.repeat(65)], /64 bytes/],
    [['create', 'x', '-t', 'novalue'], /--tag "novalue"/],
    [['create'], /Missing argument <name>/],
    [['delete', 'psk', '-y'], /reserved/],
    [['delete', 'never', '-y'], /not found/],
    [['create', 'mine'], /may not create this provisioner key/, { CODER_SESSION_TOKEN: member.token }],
    [['list'], /not found/, { CODER_SESSION_TOKEN: member.token }],
  ];
  for (const [words, message, env] of cases) {
    const { code, stdout, stderr } = await coder(['provisioner', 'keys', ...words], env);
    assert.match(stderr, message, words.join(' '));
    assert.deepEqual([code, stdout], [1, '']);
  }
});

test("lists daemons and jobs in upstream's columns, filters and cancels jobs", async () => {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'worked');
  await sql`UPDATE templates SET display_name = 'Worked on', icon = '/w.svg' WHERE id = ${template.id}`;
  const daemon = await upsertDaemon(
    sql,
    verifiedDaemon({
      organization_id: template.organization_id,
      name: 'worker',
      key_id: BUILT_IN_KEY_ID,
      credential: 'built-in',
      provisioners: ['terraform'],
      tags: UNTAGGED,
      version: 'v1.2.3',
      api_version: '1.8',
    }),
  );
  const running = await pendingVersion(server, { template_id: template.id });
  await acquireJob(sql, {
    worker: verifiedDaemon({
      id: daemon.id,
      organizationId: daemon.organization_id,
      provisioners: ['terraform'],
      tags: UNTAGGED,
    }),
    leaseMs: 60_000,
  });
  const waiting = await pendingVersion(server);

  assert.match(
    await out('provisioner', 'list'),
    /^CREATED AT +LAST SEEN AT +KEY NAME +NAME +VERSION +STATUS +TAGS\n\S+ +\S+ +built-in +worker +v1\.2\.3 +busy +map\[owner: scope:organization\]\n$/,
  );
  const { stderr } = await coder(['provisioner', 'list']);
  assert.match(stderr, /^Not the server's version, v2\.36\.0\+platform\.\S+: worker \(v1\.2\.3\)\. Start them again/m);
  const columns = 'name,organization,current job id,current job status,current job template display name';
  assert.equal(
    await out('provisioner', 'ls', '-c', columns),
    [
      `NAME    ORGANIZATION  CURRENT JOB ID${' '.repeat(24)}CURRENT JOB STATUS  CURRENT JOB TEMPLATE DISPLAY NAME`,
      `worker  coder         ${running.job.id}  running             Worked on\n`,
    ].join('\n'),
  );
  assert.match(await out('provisioner', 'ls', '-c', 'current job template icon'), /\n\/w\.svg\n$/);
  const daemons = await json<ProvisionerDaemon[]>('provisioner', 'list', '--limit', '1');
  assert.deepEqual(
    daemons.map(({ id }) => id),
    [daemon.id],
  );

  const ids = async (...flags: string[]) =>
    (await json<ProvisionerJob[]>('provisioner', 'jobs', 'list', ...flags)).map(({ id }) => id);
  assert.deepEqual(await ids('-s', 'pending'), [waiting.job.id]);
  assert.deepEqual(await ids('--status', 'running,pending'), [waiting.job.id, running.job.id]);
  assert.deepEqual(await ids('-l', '1'), [waiting.job.id]);
  assert.match(
    await out('provisioner', 'job', 'ls', '-s', 'pending'),
    /^CREATED AT +ID +TYPE +TEMPLATE DISPLAY NAME +STATUS +QUEUE +TAGS\n\S+ +\S+ +template_version_import +pending +1\/1 +map\[owner: scope:organization\]\n$/,
  );
  const other = await insertPerson(server, 'other');
  await sql`UPDATE provisioner_jobs SET initiator_id = ${other.id} WHERE id = ${waiting.job.id}`;
  assert.deepEqual(await ids('--initiator', 'other'), [waiting.job.id]);
  assert.ok((await ids('-i', 'me')).includes(running.job.id));
  assert.ok(!(await ids('-i', 'me')).includes(waiting.job.id));
  const nobody = await coder(['provisioner', 'jobs', 'list', '-i', 'nobody']);
  assert.deepEqual([nobody.code, nobody.stdout], [1, '']);
  assert.match(
    await out('provisioner', 'jobs', 'list', '-i', 'other', '-c', 'initiator id,logs overflowed'),
    new RegExp(`\\n${other.id} +false\\n$`),
  );
  const wrong = await coder(['provisioner', 'jobs', 'list', '-s', 'sleepy']);
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /pending, running, succeeded/);

  await out('provisioner', 'jobs', 'cancel', waiting.job.id);
  await out('provisioner', 'jobs', 'cancel', running.job.id, '-O', 'default');
  assert.deepEqual(await ids('-s', 'canceled'), [waiting.job.id]);
  assert.deepEqual(await ids('-s', 'canceling'), [running.job.id]);
});

test('shows why a job waits in push, create, the list of jobs and explain', async () => {
  const { sql } = server.services;
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
  const template = await createTestTemplate(server, 'waited');
  await sql`UPDATE provisioner_daemons SET last_seen_at = now()`;
  forgetDaemonGroups(server.services); // as when a daemon joins
  const explained = await coder(['provisioner', 'explain', 'waited']);
  assert.equal(explained.code, 0, explained.stderr);
  assert.match(explained.stderr, /1 of 1 provisioner daemons can run them, and 1 of these are online/);
  assert.match(explained.stdout, /^NAME +STATUS +CAN RUN +WHY +TAGS\nworker +idle +yes +map/);

  // from now on its builds have a tag that the one daemon has not
  await sql`UPDATE provisioner_jobs SET tags = ${sql.json({ ...UNTAGGED, zone: 'moon' })}
    FROM template_versions v WHERE v.job_id = provisioner_jobs.id AND v.id = ${template.active_version_id}`;
  assert.match(await out('provisioner', 'explain', 'waited'), /\nworker +idle +no +it lacks zone=moon /);
  const json = JSON.parse(await out('provisioner', 'explain', 'waited', '-o', 'json')) as { tags: object };
  assert.deepEqual(json.tags, { ...UNTAGGED, zone: 'moon' });

  const why = /WARN: No provisioner daemon has its tags \(zone=moon\)\. The nearest is worker: it lacks zone=moon\./;
  const dir = mkdtempSync(join(tmpdir(), 'pushed-'));
  writeFileSync(join(dir, 'main.tf'), 'resource "terraform_data" "x" {}');
  /** Runs a command until it has said why, cancels the job that it waits for, and gives back what it printed. */
  const waits = async (line: string[]) => {
    const said = Promise.withResolvers<void>();
    const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
    const running = invoke(line, env, '', (text) => {
      if (text.includes('WARN: ')) said.resolve();
    });
    await Promise.race([said.promise, running]);
    const [job] = (await server.api<ProvisionerJob[]>('GET', '/organizations/default/provisionerjobs?status=pending'))
      .body;
    const listed = await coder(['provisioner', 'jobs', 'list', '-s', 'pending']);
    assert.match(listed.stderr, /is waiting: No provisioner daemon has its tags \(zone=moon\)/);
    await out('provisioner', 'jobs', 'cancel', job!.id);
    return (await running).stdout;
  };
  const push = ['templates', 'push', 'moon', '-d', dir, '--provisioner-tag', 'zone=moon', '-y'];
  assert.match(await waits(push), why);
  assert.match(await waits(['create', 'lonely', '--template', 'waited', '-y']), why);
});

test('lists daemons by status and by the time since the server saw them', async () => {
  const { sql } = server.services;
  const organization = await server.api<{ id: string }>('GET', '/organizations/default');
  const add = (name: string) =>
    upsertDaemon(
      sql,
      verifiedDaemon({
        organization_id: organization.body.id,
        name,
        key_id: BUILT_IN_KEY_ID,
        credential: 'built-in',
        provisioners: ['terraform'],
        tags: { ...UNTAGGED, of: 'filters' },
        version: 'v1.2.3',
        api_version: '1.8',
      }),
    );
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '3 hours'`;
  await add('here');
  await add('away');
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '90 minutes' WHERE name = 'away'`;
  const names = async (flags: string[], env: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await coder(['provisioner', 'list', '-o', 'json', ...flags], env);
    assert.equal(code, 0, stderr);
    return (JSON.parse(stdout) as ProvisionerDaemon[]).map(({ name }) => name).sort();
  };
  const cases: [string[], string[], Record<string, string>?][] = [
    [[], ['here']],
    [['--show-offline'], ['away', 'here', 'worker']],
    [
      ['-f', '--max-age', '2h'],
      ['away', 'here'],
    ],
    [['-f', '-m', '1h'], ['here']],
    [
      ['-s', 'offline'],
      ['away', 'worker'],
    ],
    [
      ['--status', 'offline,idle', '-m', '2h'],
      ['away', 'here'],
    ],
    [
      ['-s', 'busy', '-f'],
      ['away', 'worker'],
    ],
    [[], ['away', 'here', 'worker'], { CODER_PROVISIONER_SHOW_OFFLINE: 'true' }],
    [[], ['away'], { CODER_PROVISIONER_LIST_STATUS: 'offline', CODER_PROVISIONER_LIST_MAX_AGE: '2h' }],
  ];
  for (const [flags, expected, env] of cases) assert.deepEqual(await names(flags, env), expected, flags.join(' '));
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '3 hours'`;
  const none = await coder(['provisioner', 'list']);
  assert.deepEqual(
    [none.code, none.stdout, none.stderr],
    [0, '', 'No provisioner daemons found. To see offline ones, use --show-offline.\n'],
  );
  const wrong = await coder(['provisioner', 'list', '-s', 'sleepy']);
  assert.match(wrong.stderr, /"sleepy" is not one of offline, idle, busy/);
});
