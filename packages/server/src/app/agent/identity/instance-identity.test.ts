import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace, WorkspaceAgent, WorkspaceBuild } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import {
  type AgentOptions,
  createTestTemplate,
  eventually,
  runAgent,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../../job/complete.ts';
import { makeTestCloud, makeTestGoogle, type TestCloud } from './testing/fixtures.ts';

const google = makeTestGoogle();
let cloud: TestCloud;
/** The answers of a machine's metadata service, by path, and Google's keys. */
let metadata: Server;
let metadataUrl: string;
let server: TestServer;
let template: Template;
const asked: string[] = [];
const azureDocument = () => {
  const document = { vmId: 'vm-7', timeStamp: { expiresOn: '01/01/49 00:00:00 -0000' } };
  return { encoding: 'pkcs7', signature: cloud.azureSign(JSON.stringify(document)) };
};
const awsDocument = JSON.stringify({ instanceId: 'i-7', region: 'eu-test-1' });

before(async () => {
  cloud = makeTestCloud();
  const seconds = Math.floor(Date.now() / 1_000);
  const claims = { iss: 'https://accounts.google.com', aud: 'coder', iat: seconds, exp: seconds + 3_600 };
  const answers: Record<string, () => string> = {
    'GET /certs': () => JSON.stringify(google.keys),
    'PUT /latest/api/token 21600': () => 'session',
    'GET /latest/dynamic/instance-identity/document session': () => awsDocument,
    'GET /latest/dynamic/instance-identity/signature session': () => cloud.awsSign(awsDocument),
    'GET /metadata/attested/document?api-version=2020-09-01 true': () => JSON.stringify(azureDocument()),
    'GET /computeMetadata/v1/instance/service-accounts/default/identity?audience=coder&format=full Google': () =>
      google.token({ ...claims, google: { compute_engine: { instance_id: '777' } } }),
  };
  metadata = createServer(({ method, url, headers }, answer) => {
    const proof = ['x-aws-ec2-metadata-token-ttl-seconds', 'x-aws-ec2-metadata-token', 'metadata', 'metadata-flavor'];
    const shown = proof.flatMap((name) => headers[name] ?? []);
    const what = [method, url, ...shown].join(' ');
    asked.push(what);
    const text = answers[what]?.();
    answer.writeHead(text === undefined ? 404 : 200).end(text);
  });
  metadata.listen(0, '127.0.0.1');
  await once(metadata, 'listening');
  metadataUrl = `http://127.0.0.1:${(metadata.address() as AddressInfo).port}`;
  server = await startTestServer({
    env: {
      CODER_AWS_INSTANCE_IDENTITY_CERTIFICATES: cloud.aws,
      CODER_AZURE_INSTANCE_IDENTITY_CERTIFICATES: cloud.chain,
      CODER_GOOGLE_INSTANCE_IDENTITY_KEYS_URL: `${metadataUrl}/certs`,
    },
  });
  template = await createTestTemplate(server, 'machines', {
    // the agents of the import have ids, too, and nobody may act as one of them
    startResources: [{ name: 'machine', type: 'vm', agents: [agentOf('imported-only')] }],
  });
});
after(async () => {
  await server.stop();
  metadata.close();
  metadata.closeAllConnections();
  cloud.remove();
});

function agentOf(instanceId: string) {
  const auth = { case: 'instanceId' as const, value: instanceId };
  return { id: crypto.randomUUID(), name: 'main', operatingSystem: 'linux', architecture: 'amd64', auth };
}

/** Completes the waiting build with these agents. */
async function finishBuild(agents: object[]): Promise<void> {
  const own = await takeJob(server);
  const value = { resources: [{ name: 'machine', type: 'vm', agents: agents as never }] };
  const type = { case: 'workspaceBuild' as const, value };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

/** The build of a new workspace whose daemon reports these agents. */
async function builtWith(name: string, agents: object[]): Promise<WorkspaceBuild> {
  const { body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  await finishBuild(agents);
  return (await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${body.latest_build.id}`)).body;
}

const proof = (instanceId: string, agent_name?: string) => {
  const document = JSON.stringify({ instanceId, region: 'eu-test-1' });
  return server.api<{ message: string; session_token?: string }>('POST', '/workspaceagents/aws-instance-identity', {
    token: null,
    body: { document, signature: cloud.awsSign(document), agent_name },
  });
};

async function workspaceOn(name: string, instanceId: string): Promise<{ workspace: Workspace; agentId: string }> {
  const { body: workspace } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  await finishBuild([agentOf(instanceId)]);
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${workspace.latest_build.id}`);
  return { workspace, agentId: body.resources[0]!.agents![0]!.id };
}

for (const [auth, instanceId] of [
  ['aws-instance-identity', 'i-7'],
  ['azure-instance-identity', 'vm-7'],
  ['google-instance-identity', '777'],
] as const) {
  test(`an agent on a machine proves itself by ${auth}, before each connection`, async () => {
    const { agentId } = await workspaceOn(`on-${auth.split('-')[0]}`, instanceId);
    const options: AgentOptions = {
      url: server.url,
      auth,
      metadataUrl,
      version: 'v0.1.0',
      log: silentLogger,
      reconnectCapMs: 200,
    };
    const agent = runAgent(options);
    const look = async () => (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${agentId}`)).body;
    await eventually('it is ready', async () => (await look()).lifecycle_state === 'ready');
    assert.equal((await look()).instance_id, instanceId);
    await agent.stop();
  });
}

test('gives no token for a machine without an agent or with an outdated one', async () => {
  assert.equal((await proof('i-nobody')).status, 404);
  const imported = await proof('imported-only');
  assert.equal(imported.status, 400);
  assert.match(imported.body.message, /not belong to a workspace/);
  const { workspace } = await workspaceOn('stopped', 'i-stopped');
  assert.ok((await proof('i-stopped')).body.session_token);
  const stop = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'stop' } });
  assert.equal(stop.status, 201);
  // its last reports are still accepted
  assert.equal((await proof('i-stopped')).status, 200);
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const outdated = await proof('i-stopped');
  assert.equal(outdated.status, 400);
  assert.match(outdated.body.message, /latest build/);
  const document = JSON.stringify({ instanceId: 'i-7', region: 'us-east-1' });
  const forged = await server.api('POST', '/workspaceagents/aws-instance-identity', {
    token: null,
    body: { document, signature: Buffer.alloc(128, 1).toString('base64') },
  });
  assert.equal(forged.status, 401);
});

test('a build cannot report the machine or the agent token of another workspace', async () => {
  const { workspace } = await workspaceOn('victim', 'i-victim');
  const token = (await proof('i-victim')).body.session_token!;
  const withToken = { ...agentOf(''), auth: { case: 'token' as const, value: token } };
  for (const [name, agents, what] of [
    ['thief', [agentOf('i-victim')], 'machine "i-victim"'],
    ['thief-2', [{ ...agentOf('i-own'), name: 'first' }, agentOf('i-victim')], 'machine "i-victim"'],
    ['thief-3', [withToken], 'agent token'],
  ] as const) {
    const build = await builtWith(name, [...agents]);
    assert.equal(build.job.status, 'failed', name);
    assert.equal(
      build.job.error,
      `The build reports the ${what} of an agent of another workspace. ` +
        'Give each workspace its own machine and its own agent token.',
    );
  }
  assert.equal((await proof('i-victim')).body.session_token, token);

  // nor the template of an import, which anybody may push
  await createTestTemplate(server, 'copies', {
    startResources: [{ name: 'machine', type: 'vm', agents: [agentOf('i-victim')] }],
  });
  assert.equal((await proof('i-victim')).body.session_token, token);

  // the workspace itself keeps its machine
  for (const transition of ['stop', 'start']) {
    assert.equal(
      (await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition } })).status,
      201,
    );
    await finishBuild([agentOf('i-victim')]);
    const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
    assert.equal(body.latest_build.job.status, 'succeeded', String(body.latest_build.job.error));
  }
  const body = { transition: 'delete' };
  assert.equal((await server.api('POST', `/workspaces/${workspace.id}/builds`, { body })).status, 201);
  await finishBuild([]);
  // and nobody has it any more
  assert.equal((await builtWith('heir', [agentOf('i-victim')])).job.status, 'succeeded');
  assert.equal((await proof('i-victim')).status, 200);
});

test('a stopped workspace keeps its machine, although the stop reports no agent', async () => {
  const { workspace } = await workspaceOn('sleeper', 'i-asleep');
  const order = async (transition: string) => {
    const path = `/workspaces/${workspace.id}/builds`;
    assert.equal((await server.api('POST', path, { body: { transition } })).status, 201);
  };
  await order('stop');
  await finishBuild([]);
  assert.equal((await builtWith('sneak', [agentOf('i-asleep')])).job.status, 'failed');
  // the machine may boot before its build ends
  assert.equal((await proof('i-asleep')).status, 400);
  await order('start');
  await finishBuild([agentOf('i-asleep')]);
  assert.equal((await proof('i-asleep')).status, 200);
  // a start with a new machine gives up the old one
  await order('stop');
  await finishBuild([]);
  await order('start');
  await finishBuild([agentOf('i-new')]);
  assert.equal((await builtWith('later', [agentOf('i-asleep')])).job.status, 'succeeded');
});

test('of two builds that report one machine at the same time, one fails', async () => {
  const builds: string[] = [];
  const jobs = [];
  for (const name of ['racer', 'racer-2']) {
    const { body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
      body: { name, template_id: template.id },
    });
    builds.push(body.latest_build.id);
    jobs.push(await takeJob(server));
  }
  const value = { resources: [{ name: 'machine', type: 'vm', agents: [agentOf('i-race')] }] };
  await Promise.all(
    jobs.map((own) => {
      const done = { jobId: own.jobId, type: { case: 'workspaceBuild' as const, value } };
      return completeJob(server.services, own, create(CompletedJobSchema, done));
    }),
  );
  const ended = await Promise.all(builds.map((id) => server.api<WorkspaceBuild>('GET', `/workspacebuilds/${id}`)));
  assert.deepEqual(ended.map(({ body }) => body.job.status).sort(), ['failed', 'succeeded']);
});

test('gives no token for a machine that two agents claim', async () => {
  const { agentId } = await workspaceOn('claimed', 'i-claimed');
  await workspaceOn('claimant', 'i-other');
  assert.equal((await proof('i-claimed')).status, 200);
  // as an older release stored them
  await server.services
    .sql`UPDATE workspace_agents SET auth_instance_id = 'i-claimed' WHERE auth_instance_id = 'i-other'`;
  const { status, body } = await proof('i-claimed');
  assert.deepEqual([status, body.session_token], [409, undefined]);
  assert.match(body.message, /^Two agents are registered for the instance "i-claimed"\./);
  assert.equal((await server.api<WorkspaceAgent>('GET', `/workspaceagents/${agentId}`)).status, 200);
});

test('a name chooses one of the agents of a machine', async () => {
  await workspaceOn('chosen', 'i-chosen');
  const named = (agent_name: string) => proof('i-chosen', agent_name);
  const { name } = (
    await server.services.sql<{ name: string }[]>`
    SELECT name FROM workspace_agents WHERE auth_instance_id = 'i-chosen'`
  )[0]!;
  assert.equal((await named(name)).status, 200);
  assert.equal((await named('')).status, 200);
  const { status, body } = await named('another');
  assert.deepEqual([status, body.message], [404, 'No agent "another" is registered for the instance "i-chosen".']);
});

test("fetches Google's keys once, not for each stranger's token", async () => {
  const stranger = makeTestGoogle('another');
  const before = asked.filter((what) => what.endsWith('/certs')).length;
  for (let i = 0; i < 5; i++) {
    const { status } = await server.api('POST', '/workspaceagents/google-instance-identity', {
      token: null,
      body: { json_web_token: stranger.token({}) },
    });
    assert.equal(status, 401);
  }
  assert.equal(asked.filter((what) => what.endsWith('/certs')).length, before);
});
