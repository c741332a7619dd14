import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { completeJob } from '@ropewalk/server/app/job/complete';
import {
  createTestTemplate,
  eventually,
  failTaken,
  importedVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'sized', {
    richParameters: [{ name: 'size', type: 'string', defaultValue: 'small', mutable: true }],
  });
});
after(() => server.stop());

async function finishBuild(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

async function makeRunning(name: string): Promise<string> {
  const body = { name, template_id: template.id };
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild();
  return made.body.id;
}

const builds = async (id: string) => (await server.api<WorkspaceBuild[]>('GET', `/workspaces/${id}/builds`)).body;

/** Waits for a build of this number and completes it. */
async function finish(id: string, number: number, transition: string): Promise<void> {
  await eventually(`build ${number}`, async () => (await builds(id))[0]!.build_number === number);
  assert.equal((await builds(id))[0]!.transition, transition);
  await finishBuild();
}

const coder = (args: string[], url = server.url, signal?: AbortSignal) =>
  invoke(args, { CODER_URL: url, CODER_SESSION_TOKEN: server.adminToken }, '', undefined, signal);

test('restarts with one request and shows both builds', async () => {
  const id = await makeRunning('again');
  const running = coder(['restart', 'again', '-y', '--parameter', 'size=large']);
  await finish(id, 2, 'stop');
  await finish(id, 3, 'start');
  const { code, stdout, stderr } = await running;
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /The workspace again has been restarted\./);
  const [start, stop] = await builds(id);
  assert.deepEqual([start!.reason, stop!.reason], ['cli', 'cli']);
  const { body: values } = await server.api('GET', `/workspacebuilds/${start!.id}/parameters`);
  assert.deepEqual(values, [{ name: 'size', value: 'large' }]);
});

test('reports the error of the stop, and why the start could not begin', async () => {
  const id = await makeRunning('stuck');
  const failing = coder(['restart', 'stuck', '-y']);
  await eventually('the stop', async () => (await builds(id)).length === 2);
  await failTaken(server, await takeJob(server), 'the machine does not answer');
  const failed = await failing;
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /the machine does not answer/);
  const running = coder(['restart', 'stuck', '-y']);
  await eventually('the stop', async () => (await builds(id)).length === 3);
  const { sql } = server.services;
  const importJob = sql`SELECT job_id FROM template_versions WHERE id = ${template.active_version_id}`;
  await sql`UPDATE provisioner_jobs SET error = 'gone' WHERE id = (${importJob})`;
  await finishBuild();
  const { code, stderr } = await running;
  await sql`UPDATE provisioner_jobs SET error = NULL WHERE id = (${importJob})`;
  assert.equal(code, 1);
  assert.match(stderr, /The restart stopped the workspace, but could not start it again\. .*failed to import\. gone/);
});

test('updates a running workspace in the same way', async () => {
  const id = await makeRunning('updated');
  const version = await importedVersion(server, { template_id: template.id });
  const body = { id: version.id };
  assert.equal((await server.api('PATCH', `/templates/${template.id}/versions`, { body })).status, 200);
  const running = coder(['update', 'updated']);
  await finish(id, 2, 'stop');
  // nobody but the server begins the start
  await finish(id, 3, 'start');
  const { code, stdout } = await running;
  assert.equal(code, 0);
  assert.match(stdout, /has been updated/);
  assert.equal((await builds(id))[0]!.template_version_id, version.id);
});

interface Front {
  /** The end of the path of a route that it does not have. */
  without?: string;
  /** Another text for an answer, if there is one. */
  change?: (path: string, text: string) => string | undefined;
}

/** Passes requests on. Returns its URL. */
async function inFront(t: TestContext, { without, change }: Front): Promise<string> {
  const { hostname, port } = new URL(server.url);
  const front = createServer((req, res) => {
    if (without && req.url!.endsWith(without)) {
      res.writeHead(404, { 'content-type': 'application/json' }).end('{"message":"Route not found."}');
      return;
    }
    const { url: path, method = 'GET', headers } = req;
    const plain = { ...headers, 'accept-encoding': 'identity' };
    const onward = request({ hostname, port, path: path!, method, headers: plain }, async (answer) => {
      const text = Buffer.concat(await answer.toArray()).toString();
      const { 'content-length': _length, 'transfer-encoding': _encoding, ...rest } = answer.headers;
      res.writeHead(answer.statusCode!, rest).end(change?.(path!, text) ?? text);
    });
    req.pipe(onward);
  });
  front.on('upgrade', (req, socket, head) => {
    const onward = connect(Number(port), hostname);
    const lines = req.rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
    onward.write(`GET ${req.url} HTTP/1.1\r\n${lines}\r\n`);
    onward.write(head);
    onward.pipe(socket).pipe(onward);
    for (const each of [onward, socket]) each.on('error', () => {});
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    front.close();
    front.closeAllConnections();
  });
  return `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
}

test('begins both builds itself with a server that cannot restart', async (t) => {
  const id = await makeRunning('older');
  const url = await inFront(t, { without: '/restart' });
  const running = coder(['restart', 'older', '-y'], url);
  await finish(id, 2, 'stop');
  await finish(id, 3, 'start');
  const { code, stdout, stderr } = await running;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /has been restarted/);
});

test('waits for the start although one answer is from just before and just after it began', async (t) => {
  const id = await makeRunning('torn');
  let torn = 0;
  const change = (path: string, text: string) => {
    if (torn > 0 || path.split('?')[0] !== `/api/v2/workspaces/${id}`) return;
    const workspace = JSON.parse(text) as Workspace;
    const { job, restart_pending: isPending } = workspace.latest_build;
    if (!isPending || job.status !== 'succeeded') return;
    torn++;
    workspace.latest_build.restart_pending = false;
    return JSON.stringify(workspace);
  };
  const url = await inFront(t, { change });
  const running = coder(['restart', 'torn', '-y'], url);
  await eventually('the stop', async () => (await builds(id)).length === 2);
  const { id: stopId } = (await builds(id))[0]!;
  await server.services.sql.begin(async (tx) => {
    // the server cannot begin the start before the command has asked
    await tx`SELECT FROM workspace_restarts WHERE stop_build_id = ${stopId} FOR UPDATE`;
    await finishBuild();
    await eventually('the torn answer', async () => torn === 1);
  });
  await finish(id, 3, 'start');
  const { code, stderr } = await running;
  assert.deepEqual([code, stderr, torn], [0, '', 1]);
});
