import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Response, Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema, FailedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { systemTask } from '../../authz/proofs.ts';
import { LAST_TIME } from '../../db/connect.ts';
import { sweepLostJobs } from '../../db/queries/job-ownership.ts';
import { cancelJob } from '../../db/queries/jobs.ts';
import { systemContext } from '../context/context.ts';
import { requestCancel } from '../job/cancel.ts';
import { checkpoint, deliverState } from '../job/checkpoint.ts';
import { completeJob, failJob } from '../job/complete.ts';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'base', {
    richParameters: [
      { name: 'region', type: 'string', mutable: false, required: true },
      {
        name: 'size',
        type: 'number',
        mutable: true,
        required: false,
        defaultValue: '2',
        validationMin: 1,
        validationMax: 4,
      },
      {
        name: 'nick',
        type: 'string',
        mutable: true,
        required: false,
        defaultValue: 'abc',
        validationRegex: '^[a-z]+$',
        validationError: 'small letters only',
      },
    ],
  });
});
after(() => server.stop());

interface Refusal {
  message: string;
  validations?: { field: string; detail: string }[];
}
const REGION = [{ name: 'region', value: 'eu' }];
const make = (name: string, more: object = {}) =>
  server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id, rich_parameter_values: REGION, ...more },
  });
const build = (workspaceId: string, body: object) =>
  server.api<WorkspaceBuild>('POST', `/workspaces/${workspaceId}/builds`, { body });
const state = (serial: number, ...names: string[]) =>
  Buffer.from(JSON.stringify({ version: 4, serial, lineage: 'line', resources: names.map((name) => ({ name })) }));

/** Completes the pending build, as a daemon that created one resource with an agent. */
async function finish(bytes: Buffer = state(1, 'one')): Promise<void> {
  const own = await takeJob(server);
  await completeJob(
    server.services,
    own,
    create(CompletedJobSchema, {
      jobId: own.jobId,
      type: {
        case: 'workspaceBuild',
        value: {
          state: bytes,
          resources: [
            {
              name: 'machine',
              type: 'terraform_data',
              agents: [{ name: 'main', operatingSystem: 'linux', architecture: 'amd64' }],
            },
          ],
        },
      },
    }),
  );
}

test('rejects wrong names, parameters and templates, and leaves nothing behind', async () => {
  const refused = async (name: string, more: object, status: number, field: string) => {
    const answer = (await make(name, more)) as unknown as { status: number; body: Refusal };
    assert.equal(answer.status, status, JSON.stringify(answer.body));
    assert.ok(
      answer.body.validations?.some((entry) => entry.field === field),
      JSON.stringify(answer.body),
    );
  };
  await refused('not valid', {}, 400, 'name');
  await refused('new', {}, 400, 'name');
  await refused('x'.repeat(33), {}, 400, 'name');
  await refused('one', { rich_parameter_values: [] }, 400, 'region');
  await refused('one', { rich_parameter_values: [...REGION, { name: 'color', value: 'red' }] }, 400, 'color');
  await refused('one', { rich_parameter_values: [...REGION, { name: 'size', value: '9' }] }, 400, 'size');
  await refused('one', { rich_parameter_values: [...REGION, { name: 'size', value: 'big' }] }, 400, 'size');
  await refused('one', { template_id: crypto.randomUUID() }, 400, 'template_id');
  await refused('one', { template_version_id: template.active_version_id }, 400, 'template_id');
  await refused('one', { ttl_ms: 5 }, 400, 'ttl_ms');
  await refused('one', { autostart_schedule: 'CRON_TZ=Nowhere/City 30 9 * * 1-5' }, 400, 'schedule');
  await refused('one', { autostart_schedule: 'CRON_TZ=UTC 30 9 * * BANANA' }, 400, 'schedule');
  assert.equal((await server.api<{ count: number }>('GET', '/workspaces')).body.count, 0);
});

test('joins a build that is requested twice, and rejects another one meanwhile', async () => {
  const made = await make('joined');
  assert.equal(made.status, 201);
  const first = made.body.latest_build;
  assert.equal(first.status, 'pending');
  const same = await build(made.body.id, { transition: 'start' });
  assert.equal(same.status, 201);
  assert.equal(same.body.id, first.id);
  assert.equal((await build(made.body.id, { transition: 'stop' })).status, 409);
  const other = await build(made.body.id, {
    transition: 'start',
    rich_parameter_values: [{ name: 'size', value: '3' }],
  });
  assert.equal(other.status, 409);
  await finish();
  const done = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${first.id}`);
  assert.equal(done.body.status, 'running');
  assert.equal(done.body.resources[0]!.agents![0]!.name, 'main');
  const twice = (await make('joined')) as unknown as { status: number; body: Refusal };
  assert.equal(twice.status, 409);
  assert.equal(twice.body.validations?.[0]?.field, 'name');
});

test('keeps parameters from build to build, and rejects changes of immutable ones', async () => {
  const { body: workspace } = await make('kept', { rich_parameter_values: [...REGION, { name: 'size', value: '3' }] });
  await finish();
  const moved = await build(workspace.id, {
    transition: 'start',
    rich_parameter_values: [{ name: 'region', value: 'us' }],
  });
  assert.equal(moved.status, 400);
  const again = await build(workspace.id, { transition: 'stop' });
  assert.equal(again.status, 201);
  const parameters = await server.api<{ name: string; value: string }[]>(
    'GET',
    `/workspacebuilds/${again.body.id}/parameters`,
  );
  assert.deepEqual(parameters.body, [
    { name: 'nick', value: 'abc' },
    { name: 'region', value: 'eu' },
    { name: 'size', value: '3' },
  ]);
  await finish();
});

test('shows everything that a build created as soon as it has succeeded', async () => {
  const { body: workspace } = await make('whole');
  for (let round = 0; round < 12; round++) {
    let ended = false;
    const look = async () => {
      while (!ended) {
        const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
        const { status, resources } = body.latest_build;
        if (status === 'running') assert.equal(resources[0]?.agents?.length, 1, `round ${round}`);
      }
    };
    const looks = [look(), look(), look()];
    await finish().finally(() => {
      ended = true;
    });
    await Promise.all(looks);
    const started = await build(workspace.id, { transition: 'start' });
    assert.equal(started.status, 201, JSON.stringify(started.body));
  }
  await finish();
});

test('rejects an invalid value before a build, and stops a workspace with the values that it runs with', async () => {
  const { body: workspace } = await make('ended', { rich_parameter_values: [...REGION, { name: 'size', value: '2' }] });
  await finish();
  const start = async (name: string, value: string) =>
    (await build(workspace.id, { transition: 'start', rich_parameter_values: [{ name, value }] })) as unknown as {
      status: number;
      body: Refusal;
    };
  const fraction = await start('size', '2.5');
  assert.deepEqual([fraction.status, fraction.body.validations?.[0]?.field], [400, 'size']);
  const letters = await start('nick', 'ABC');
  assert.deepEqual(
    [letters.status, letters.body.validations],
    [400, [{ field: 'nick', detail: 'small letters only' }]],
  );

  // a value that only Terraform rejects
  assert.equal((await start('size', '4')).status, 201);
  const own = await takeJob(server);
  await failJob(server.services, own, create(FailedJobSchema, { jobId: own.jobId, error: 'too big here' }));
  const parametersOf = async (transition: string) => {
    const made = await build(workspace.id, { transition });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const { body } = await server.api<{ name: string; value: string }[]>(
      'GET',
      `/workspacebuilds/${made.body.id}/parameters`,
    );
    return body.find(({ name }) => name === 'size')?.value;
  };
  assert.equal(await parametersOf('stop'), '2');
  await finish();
  // an old value that is not valid any more does not prevent a stop or deletion
  await server.services.sql`UPDATE template_version_parameters SET validation_max = 1
    WHERE name = 'size' AND template_version_id = ${template.active_version_id}`;
  assert.equal((await start('nick', 'xyz')).status, 400);
  assert.equal(await parametersOf('delete'), '2');
  await finish();
  await server.services.sql`UPDATE template_version_parameters SET validation_max = 4
    WHERE name = 'size' AND template_version_id = ${template.active_version_id}`;
});

test('cancels a pending build immediately without a daemon, and then deletes the workspace', async () => {
  const { body: workspace } = await make('pending');
  const { id } = workspace.latest_build;
  const wrong = await server.api('PATCH', `/workspacebuilds/${id}/cancel?expect_status=running`);
  assert.equal(wrong.status, 412);
  // as upstream's clients, which send the key always
  assert.equal((await server.api('PATCH', `/workspacebuilds/${id}/cancel?expect_status=`)).status, 200);
  assert.equal((await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${id}`)).body.status, 'canceled');
  assert.equal((await server.api('PATCH', `/workspacebuilds/${id}/cancel`)).status, 400);
  const deleted = await build(workspace.id, { transition: 'delete', orphan: true });
  assert.equal(deleted.status, 201);
  assert.equal((await server.api('GET', `/workspaces/${workspace.id}`)).status, 410);
});

test('cancels only pending builds where a pending one is expected', async () => {
  const { body: workspace } = await make('expected');
  const { id, job } = workspace.latest_build;
  const { job: taken } = await takeJob(server);
  assert.equal(taken.id, job.id);
  assert.equal((await server.api('PATCH', `/workspacebuilds/${id}/cancel?expect_status=pending`)).status, 412);
  // as if a daemon took it after the check
  const task = systemTask(systemContext(server.services, 'test'));
  const cancelable = { task, job_id: job.id };
  assert.equal(await cancelJob(server.services.sql, cancelable, { expected: 'pending' }), undefined);
  assert.equal((await server.api('PATCH', `/workspacebuilds/${id}/cancel?expect_status=running`)).status, 200);
  await requestCancel(server.services, cancelable, { force: true });
  assert.equal((await build(workspace.id, { transition: 'delete', orphan: true })).status, 201);
});

test('does not build a workspace whose deletion commits meanwhile', async () => {
  const { sql } = server.services;
  const { body: workspace } = await make('vanishing');
  await server.api('PATCH', `/workspacebuilds/${workspace.latest_build.id}/cancel`);
  let starting: ReturnType<typeof build> | undefined;
  await sql.begin(async (tx) => {
    await tx`UPDATE workspaces SET deleted = true WHERE id = ${workspace.id}`;
    starting = build(workspace.id, { transition: 'start' });
    await eventually('the request waits for the lock', async () => {
      const [row] = await sql`SELECT count(*) AS waiting FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM workspaces WHERE id%'`;
      return row!['waiting'] > 0;
    });
  });
  const { status, body } = await starting!;
  assert.equal(status, 410, JSON.stringify(body));
});

test('fails the build of a lost daemon with the reason when its lease expires, and keeps its state', async () => {
  const { sql } = server.services;
  const { body: workspace } = await make('lost');
  const own = await takeJob(server);
  assert.ok(await checkpoint(server.services, own, { state: state(1, 'one'), inFlight: ['two'] }));
  assert.ok(await checkpoint(server.services, own, { state: state(2, 'one', 'two'), inFlight: [] }));
  const flying = Array.from({ length: 22 }, (_, i) => `t.r[${i}]`);
  assert.ok(await checkpoint(server.services, own, { state: Buffer.alloc(0), inFlight: flying }));
  const running = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${workspace.latest_build.id}`);
  assert.deepEqual(running.body.job.in_flight, flying);
  const task = systemTask(systemContext(server.services, 'test'));
  assert.equal((await sweepLostJobs(sql, task, LAST_TIME)).length, 0, 'a lease that runs is left alone');
  await sql`UPDATE provisioner_jobs SET lease_expires_at = now() - interval '1 second' WHERE id = ${own.jobId}`;
  assert.equal((await sweepLostJobs(sql, task, LAST_TIME)).length, 1);
  const lost = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${workspace.latest_build.id}`);
  assert.equal(lost.body.status, 'failed');
  assert.match(lost.body.job.error!, /lost.*lease/);
  assert.match(lost.body.job.error!, /that were being created: t\.r\[0\], t\.r\[1\],.*t\.r\[19\], and 2 more\.$/);
  // the lost daemon comes back: the server rejects its result and keeps its newer state
  const ghost = completeJob(
    server.services,
    own,
    create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild', value: { state: state(9) } } }),
  );
  await assert.rejects(ghost, /don't own this job/);
  assert.equal(await deliverState(server.services, own, { state: state(1) }), 'refused');
  assert.equal(
    await deliverState(server.services, own, {
      state: state(3, 'one', 'two', 'three'),
    }),
    'kept',
  );
  const next = await build(workspace.id, { transition: 'stop' });
  assert.equal(next.status, 201);
  const known = await server.api<{ serial: number }>('GET', `/workspacebuilds/${next.body.id}/state`);
  assert.equal(known.body.serial, 3, 'the next build begins from the newest state');
  assert.equal(await deliverState(server.services, own, { state: state(4) }), 'orphaned');
  await finish(state(4, 'one'));
});

test('keeps the previous state after a failed plan, and the new one after a failed apply', async () => {
  const { body: workspace } = await make('failing');
  await finish(state(5, 'five'));
  const fail = async (bytes: Buffer) => {
    const started = await build(workspace.id, { transition: 'start' });
    const own = await takeJob(server);
    await failJob(
      server.services,
      own,
      create(FailedJobSchema, {
        jobId: own.jobId,
        error: 'no',
        type: { case: 'workspaceBuild', value: { state: bytes } },
      }),
    );
    return (await server.api<{ serial: number }>('GET', `/workspacebuilds/${started.body.id}/state`)).body.serial;
  };
  assert.equal(await fail(Buffer.alloc(0)), 5);
  assert.equal(await fail(state(6, 'six')), 6);
});

test('fails a build with an invalid agent name with that reason, and keeps its state', async () => {
  const { body: workspace } = await make('badname');
  const own = await takeJob(server);
  await completeJob(
    server.services,
    own,
    create(CompletedJobSchema, {
      jobId: own.jobId,
      type: {
        case: 'workspaceBuild',
        value: { state: state(7), resources: [{ name: 'm', type: 't', agents: [{ name: 'not_valid' }] }] },
      },
    }),
  );
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${workspace.latest_build.id}`);
  assert.equal(body.status, 'failed');
  assert.match(body.job.error!, /not_valid/);
  assert.equal((await server.api<{ serial: number }>('GET', `/workspacebuilds/${body.id}/state`)).body.serial, 7);
});

test('stores an agent that keeps its id once for each build, and rejects two rows of one build', async () => {
  const { body: workspace } = await make('steady');
  const id = crypto.randomUUID();
  const end = async (...names: string[]) => {
    const own = await takeJob(server);
    const token = crypto.randomUUID();
    const agent = { id, name: 'main', operatingSystem: 'linux', architecture: 'amd64' };
    const auth = { case: 'token' as const, value: token };
    const resources = names.map((name) => ({ name, type: 'vm', agents: [{ ...agent, auth }] }));
    const value = { state: state(1), resources };
    const type = { case: 'workspaceBuild' as const, value };
    await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
    return token;
  };
  const speaks = async (token: string) =>
    (
      await server.api('GET', '/workspaceagents/me/gitsshkey', {
        token: null,
        headers: { 'coder-session-token': token },
      })
    ).status === 200;
  const first = await end('disk');
  assert.ok(await speaks(first));
  const started = await build(workspace.id, { transition: 'start' });
  const second = await end('disk');
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${started.body.id}`);
  assert.equal(body.status, 'running', body.job.error ?? '');
  const before = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${workspace.latest_build.id}`);
  assert.notEqual(body.resources[0]!.agents![0]!.id, before.body.resources[0]!.agents![0]!.id);
  assert.deepEqual([await speaks(first), await speaks(second)], [false, true], 'the token of an older build is void');

  const counted = await build(workspace.id, { transition: 'start' });
  await end('machine', 'machine');
  const failed = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${counted.body.id}`);
  assert.equal(failed.body.status, 'failed');
  assert.match(failed.body.job.error!, /The agent name "main" already exists in this build.*vm\.machine/);
});

test('hides a workspace from others, and shows its state only to people who may change the template', async () => {
  const { body: workspace } = await make('private');
  await finish();
  const stranger = await insertPerson(server, 'stranger');
  const token = stranger.token;
  assert.equal((await server.api('GET', `/workspaces/${workspace.id}`, { token })).status, 404);
  assert.equal(
    (await server.api('POST', `/workspaces/${workspace.id}/builds`, { token, body: { transition: 'stop' } })).status,
    404,
  );
  assert.equal((await server.api<{ count: number }>('GET', '/workspaces', { token })).body.count, 0);
  const own = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token,
    body: { name: 'mine', template_id: template.id, rich_parameter_values: REGION },
  });
  assert.equal(own.status, 201);
  await finish();
  assert.equal((await server.api('GET', `/workspacebuilds/${own.body.latest_build.id}/state`, { token })).status, 404);
});

test('searches the list', async () => {
  const found = async (q: string) =>
    (await server.api<{ workspaces: Workspace[] }>('GET', `/workspaces?q=${encodeURIComponent(q)}`)).body.workspaces
      .map((w) => w.name)
      .sort();
  assert.deepEqual(await found('owner:me status:stopped'), ['kept', 'lost']);
  assert.deepEqual(await found('name:priv'), ['private']);
  assert.deepEqual(await found('owner:stranger'), ['mine']);
  assert.equal((await server.api('GET', '/workspaces?q=nonsense:1')).status, 400);

  assert.deepEqual(await found('OWNER:ME Status:Stopped'), ['kept', 'lost']);
  assert.deepEqual(await found('me/kept'), ['kept']);
  assert.deepEqual(await found('ME/KEPT status:Stopped'), ['kept']);
  assert.deepEqual(await found('me/'), await found('owner:me'));
  assert.deepEqual(await found('stranger/mine'), ['mine']);
  const rejected = async (q: string) => {
    const { status, body } = await server.api<Response>('GET', `/workspaces?q=${encodeURIComponent(q)}`);
    assert.equal(status, 400, q);
    return body.validations![0]!;
  };
  const bogus = await rejected('status:bogus');
  assert.equal(bogus.field, 'status');
  assert.match(bogus.detail, /^"bogus" is not one of pending, starting, running, .*deleted, unhealthy$/);
  for (const [q, field] of [
    ['name: dev', 'q'],
    [':dev', 'q'],
    ['a/b/c', 'q'],
    ['dev name:dev', 'name'],
    ['dev other', 'name'],
    ['me/dev owner:me', 'owner'],
    ['status:running status:stopped', 'status'],
    ['has-agent:bogus', 'has-agent'],
    ['id:bogus', 'id'],
    ['organization:bogus', 'organization'],
  ] as const)
    assert.equal((await rejected(q)).field, field, q);

  const first = async () =>
    (await server.api<{ workspaces: Workspace[] }>('GET', '/workspaces?q=owner:me')).body.workspaces[0]!;
  const id = (await server.api<Workspace>('GET', '/users/me/workspace/lost')).body.id;
  assert.deepEqual(await found('favorite:true'), []);
  assert.notEqual((await first()).name, 'lost');
  await server.api('PUT', `/workspaces/${id}/favorite`);
  assert.deepEqual(await found('favorite:true'), ['lost']);
  assert.ok(!(await found('favorite:false')).includes('lost'));
  assert.deepEqual([(await first()).name, (await first()).favorite], ['lost', true], 'favorites come first');
  await server.api('DELETE', `/workspaces/${id}/favorite`);
  assert.equal((await server.api<Workspace>('GET', `/workspaces/${id}`)).body.favorite, false);

  const all = await found('');
  const beyond = await server.api<{ workspaces: []; count: number }>('GET', '/workspaces?limit=2&offset=1000');
  assert.deepEqual(beyond.body, { workspaces: [], count: all.length });
  assert.deepEqual(await found('param:size=3'), ['kept']);
  assert.deepEqual(await found('param:SIZE=3 param:region=EU'), ['kept']);
  assert.deepEqual(await found('param:size=3 param:region=us'), []);
  assert.deepEqual(await found('param:region'), all);
  assert.deepEqual(await found('has-ai-task:false'), all);
  assert.deepEqual(await found('has-ai-task:true'), []);
  assert.deepEqual(await found('shared:false'), all);
  assert.deepEqual(await found('shared:true'), []);
  assert.deepEqual(await found('healthy:true'), [], 'no agent ever came');
  assert.deepEqual(await found('has-agent:connected,connecting'), await found('has-agent:connecting'));
  assert.ok((await found('has-agent:connecting')).length > 0);

  const used = new Date(Date.now() - 3_600_000);
  await server.services.sql`UPDATE workspaces SET last_used_at = ${used} WHERE id = ${id}`;
  const minute = (change: number) => new Date(used.getTime() + change * 60_000).toISOString();
  assert.deepEqual(await found(`last_used_before:"${minute(1)}"`), ['lost']);
  assert.deepEqual(await found(`last_used_before:"${minute(-1)}"`), []);
  assert.deepEqual(await found(`last_used_after:"${minute(-1)}"`), all);
  assert.ok(!(await found(`last_used_after:"${minute(1)}"`)).includes('lost'));
  assert.equal((await server.api('GET', '/workspaces?q=last_used_after:yesterday')).status, 400);
});

test('accepts a state as upstream’s clients push it, and returns it', async () => {
  const { body: workspace } = await make('pushed');
  await finish(state(1, 'one'));
  const mended = state(8, 'mended');
  const pushed = await build(workspace.id, { transition: 'start', state: mended.toString('base64') });
  assert.equal(pushed.status, 201, JSON.stringify(pushed.body));
  const pulled = await server.api<{ serial: number }>('GET', `/workspacebuilds/${pushed.body.id}/state`);
  assert.equal(pulled.body.serial, 8);
  await finish(mended);
  const wrong = await build(workspace.id, { transition: 7 });
  assert.equal(wrong.status, 400, 'a number is not a text');
});
