import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import { completeJob } from '@ropewalk/server/app/job/complete';
import { createTestTemplate, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { invoke } from '../testing/invoke.ts';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'base');
  await server.api('POST', '/users/me/workspaces', { body: { name: 'dev', template_id: template.id } });
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
});
after(() => server.stop());

const coder = async (args: string) => {
  const done = await invoke(args.split(' '), { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken }, '');
  assert.equal(done.code, 0, done.stderr);
  return done;
};
const workspace = async () => (await server.api<Workspace>('GET', '/users/me/workspace/dev')).body;

test('sets and shows when a workspace starts and stops', async () => {
  const started = await coder('schedule start dev 9:30AM Mon-Fri Europe/Dublin');
  assert.match(started.stdout, /^WORKSPACE +STARTS AT +STARTS NEXT +STOPS AFTER +STOPS NEXT *\n/);
  assert.match(
    started.stdout,
    /admin\/dev +9:30AM Mon-Fri \(Europe\/Dublin\) +\d{4}-\d\d-\d\dT\d\d:30:00(Z|[+-]\d\d:\d\d)/,
  );
  assert.equal(started.stderr, '');
  await coder('schedule stop dev 150');
  assert.equal((await workspace()).ttl_ms, 9_000_000);
  await server.services.sql`UPDATE workspace_builds SET deadline = now() + interval '1 hour'`;
  await coder('schedule extend dev 3h');
  const deadline = Date.parse((await workspace()).latest_build.deadline!);
  assert.ok(Math.abs(deadline - Date.now() - 3 * 3_600_000) < 60_000);
  const [row] = JSON.parse((await coder('schedule show dev -o json')).stdout);
  assert.deepEqual(
    { ...row, starts_next: Date.parse(row.starts_next), stops_next: Date.parse(row.stops_next) },
    {
      workspace: 'admin/dev',
      starts_at: '9:30AM Mon-Fri (Europe/Dublin)',
      starts_next: Date.parse((await workspace()).next_start_at!),
      stops_after: '2h30m',
      stops_next: Math.floor(deadline / 1_000) * 1_000,
    },
  );
  assert.equal((await coder('schedule show --search name:nothing')).stderr, 'No schedules found.\n');
  await coder('schedule start dev manual');
  await coder('schedule stop dev manual');
  const manual = await workspace();
  assert.deepEqual(
    [manual.autostart_schedule, manual.ttl_ms, manual.latest_build.deadline],
    [undefined, undefined, undefined],
  );
});

test('sets the policies of a template, which limit schedules', async () => {
  await coder(
    'templates edit base --autostart-requirement-weekdays monday,friday --autostop-requirement-weekdays sunday ' +
      '--autostop-requirement-weeks 2 --failure-ttl 1h --dormancy-threshold 720h --dormancy-auto-deletion 168h --activity-bump 2h ' +
      '--autostop-reminder 30m',
  );
  const { body } = await server.api<Template>('GET', `/templates/${template.id}`);
  assert.deepEqual(body.autostart_requirement, { days_of_week: ['monday', 'friday'] });
  assert.deepEqual(body.autostop_requirement, { days_of_week: ['sunday'], weeks: 2 });
  assert.deepEqual(
    [body.failure_ttl_ms, body.time_til_dormant_ms, body.time_til_dormant_autodelete_ms, body.activity_bump_ms],
    [3_600_000, 2_592_000_000, 604_800_000, 7_200_000],
  );
  assert.equal(body.time_til_autostop_notify_ms, 1_800_000);
  // a whole template of an older client leaves the reminder as it is
  await coder('templates edit base --description later');
  const { body: later } = await server.api<Template>('GET', `/templates/${template.id}`);
  assert.deepEqual([later.description, later.time_til_autostop_notify_ms], ['later', 1_800_000]);
  const warned = await coder('schedule start dev 07:00 * UTC');
  assert.equal(warned.stderr, 'The template allows automatic starts only on monday, friday.\n');
  const day = new Date((await workspace()).next_start_at!).getUTCDay();
  assert.ok(day === 1 || day === 5, String(day));
  await coder('templates edit base --allow-user-autostart=false --allow-user-autostop=false --default-ttl 6h');
  assert.equal((await workspace()).ttl_ms, 21_600_000, 'that of the template');
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  for (const [args, why] of [
    ['schedule start dev 07:00', /Autostart is not allowed/],
    ['schedule stop dev 2h', /Custom autostop is not allowed/],
  ] as const) {
    const refused = await invoke(args.split(' '), env, '');
    assert.deepEqual([refused.code, why.test(refused.stderr)], [1, true], refused.stderr);
  }
});
