import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import { completeJob } from '@ropewalk/server/app/job/complete';
import {
  createTestTemplate,
  eventually,
  failTaken,
  startTestServer,
  type TakenJob,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { invoke } from '../testing/invoke.ts';

/** A title, the clipboard, a cleared screen, C1 sequences, an overwritten line, reversed and invisible text. */
const HOSTILE = 'x\u001b]0;title\u0007\u001b]52;c;eA==\u0007\u001b[2J\u009b2J\u009d0;t\u009c\rover\u202e\u2066\u200by';
const SHOWN =
  'x\\u001b]0;title\\u0007\\u001b]52;c;eA==\\u0007\\u001b[2J\\u009b2J\\u009d0;t\\u009c\\u000dover\\u202e\\u2066\\u200by';
// biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202e\u2066]/;

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'docker');
});
after(() => server.stop());

const env = () => ({ CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken, CODER_NO_OPEN: 'true' });
const run = (argv: string[]) => invoke(argv, env());

function assertShown(text: string, at: string): void {
  assert.ok(text.includes(SHOWN), `${at}: ${JSON.stringify(text)}`);
  assert.doesNotMatch(text, ACTING, at);
}

/** Takes the build that a command has begun, and logs what a template prints. */
async function takeBuild(): Promise<TakenJob> {
  const { sql } = server.services;
  await eventually('the job waits', async () => {
    const [job] = await sql`SELECT 1 FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL`;
    return job !== undefined;
  });
  const own = await takeJob(server);
  await sql`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
    VALUES (${own.jobId}, now(), 'provisioner', 'info', ${`Stage ${HOSTILE}`}, ${`\u001b[32mgreen\u001b[0m ${HOSTILE}`})`;
  return own;
}

test('a failed build cannot act on the terminal by its log, its stage and its error', async () => {
  const running = run(['create', 'broken', '-t', 'docker', '-y']);
  await failTaken(server, await takeBuild(), `The plan failed: ${HOSTILE}`);
  const { code, stdout, stderr } = await running;
  assert.equal(code, 1);
  assert.ok(stdout.includes(`    \u001b[32mgreen\u001b[0m ${SHOWN}\u001b[0m\n`), JSON.stringify(stdout));
  assertShown(stdout.replace('\u001b[32mgreen\u001b[0m', '').replace(`${SHOWN}\u001b[0m`, SHOWN), 'the log');
  assert.ok(stdout.includes(`==> ⧗ Stage ${SHOWN}`), 'the stage');
  assertShown(stderr, 'the error');
  for (const argv of [
    ['show', 'broken'],
    ['show', 'broken', '--details'],
  ])
    assertShown((await run(argv)).stdout, argv.join(' '));
});

test('a workspace cannot act on the terminal by metadata, app addresses and agent logs', async () => {
  const body = { name: 'dev', template_id: template.id };
  assert.equal((await server.api('POST', '/users/me/workspaces', { body })).status, 201);
  const own = await takeJob(server);
  const app = { slug: 'out', displayName: HOSTILE, url: `https://example.com/${HOSTILE}`, external: true };
  const agent = {
    id: crypto.randomUUID(),
    name: 'main',
    operatingSystem: 'linux',
    architecture: 'amd64',
    troubleshootingUrl: `https://example.com/${HOSTILE}`,
    auth: { case: 'token' as const, value: crypto.randomUUID() },
    apps: [app],
  };
  const metadata = [{ key: `key ${HOSTILE}`, value: `value ${HOSTILE}` }];
  const type = {
    case: 'workspaceBuild' as const,
    value: { resources: [{ name: 'machine', type: 'vm', agents: [agent], metadata }] },
  };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const { sql } = server.services;
  await sql`UPDATE workspace_agents SET lifecycle_state = 'start_error'`;
  await sql`INSERT INTO workspace_agent_logs (agent_id, created_at, level, output, log_source_id)
    SELECT id, now(), 'error', ${HOSTILE}, id FROM workspace_agents`;
  const details = (await run(['show', 'dev', '--details'])).stdout;
  assertShown(details, 'show --details');
  for (const part of [`key ${SHOWN}: value ${SHOWN}`, `https://example.com/${SHOWN}`])
    assert.ok(details.includes(part), `${part} in ${details}`);
});

test('names and descriptions of the server cannot act on the terminal, and JSON keeps them', async () => {
  await server.services.sql`UPDATE templates SET display_name = ${HOSTILE}, description = ${HOSTILE}`;
  await server.services.sql`UPDATE users SET name = ${HOSTILE}`;
  const columns = await run(['users', 'list', '-c', 'username,name']);
  assertShown(columns.stdout, 'a table');
  const { stdout } = await run(['users', 'list', '-o', 'json']);
  assert.match(stdout, /^[\x20-\x7e\n]*$/);
  assert.ok(JSON.parse(stdout).some(({ name }: { name: string }) => name === HOSTILE));
  // the server's answer to a request is foreign, too
  const failed = await run(['list', '--search', HOSTILE]);
  assert.doesNotMatch(failed.stdout + failed.stderr, ACTING);
  const { body } = await server.api<{ workspaces: Workspace[] }>('GET', '/workspaces');
  assert.equal(body.workspaces[0]!.template_name, template.name);
});
