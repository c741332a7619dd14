import assert from 'node:assert/strict';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace, WorkspaceAgent, WorkspaceBuild } from '@ropewalk/contract';
import { type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { dialWebSocket, type WebSocketConnection, WebSocketDialError } from '@ropewalk/wire/websocket';
import { completeJob } from '../../app/job/complete.ts';

/** An agent that a build has created and that does not run. */
export interface MadeAgent {
  id: string;
  token: string;
}

/** Completes the oldest pending build like a daemon that created agents with these tokens. */
export async function finishBuild(
  server: TestServer,
  tokens: readonly string[],
  { apiKeyScope = 'all' } = {},
): Promise<void> {
  const own = await takeJob(server);
  const agents = tokens.map((token, n) => ({
    id: crypto.randomUUID(),
    name: `a${n}`,
    operatingSystem: 'linux',
    architecture: 'amd64',
    connectionTimeoutSeconds: 120,
    apiKeyScope,
    auth: { case: 'token' as const, value: token },
    scripts: [{ displayName: 'Startup', script: 'true', runOnStart: true, timeoutSeconds: 5 }],
  }));
  const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm', agents }] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

export async function agentsOfBuild(server: TestServer, buildId: string): Promise<WorkspaceAgent[]> {
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${buildId}`);
  return body.resources.flatMap(({ agents }) => agents ?? []);
}

/** A started workspace with this many agents. No other job may be pending. */
export async function makeAgents(
  server: TestServer,
  template: Template,
  name: string,
  { count = 1, token: owner, apiKeyScope = 'all' }: { count?: number; token?: string; apiKeyScope?: string } = {},
): Promise<{ workspace: Workspace; agents: MadeAgent[] }> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
    ...(owner ? { token: owner } : {}),
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const tokens = Array.from({ length: count }, () => crypto.randomUUID());
  await finishBuild(server, tokens, { apiKeyScope });
  const found = await agentsOfBuild(server, made.body.latest_build.id);
  const agents = tokens.map((token, n) => ({ token, id: found.find((agent) => agent.name === `a${n}`)!.id }));
  return { workspace: made.body, agents };
}

export interface DialAgentOptions {
  /** Whether it is an agent of this platform, with tunnels, rather than upstream's. */
  ours?: boolean;
  hostKey?: string;
  capabilities?: string;
  /** Of the agent API. */
  version?: string;
  /** What the connection says it is. Default: nothing, as agents before upstream's version 2.31. */
  role?: string;
  signal?: AbortSignal;
}

/** The WebSocket of an agent with this token. */
export async function dialAgent(
  server: Pick<TestServer, 'url'>,
  token: string | undefined,
  { ours = true, hostKey = 'a2V5', capabilities = 'tunnel/1', version = '2.6', role, signal }: DialAgentOptions = {},
): Promise<WebSocketConnection> {
  const query = new URLSearchParams({ version, ...(role === undefined ? {} : { role }) });
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/me/rpc?${query}`, {
    headers: {
      ...(token === undefined ? {} : { Cookie: `coder_session_token=${token}` }),
      ...(ours ? { 'Platform-Capabilities': capabilities, 'Platform-Ssh-Host-Key': hostKey } : {}),
    },
    ...(signal ? { signal } : {}),
  });
  return connection;
}

/** Why the server rejected a WebSocket. */
export async function refusal(dial: Promise<unknown>): Promise<{ status: number | undefined; message: string }> {
  try {
    await dial;
  } catch (err) {
    assert.ok(err instanceof WebSocketDialError, String(err));
    const { message } = JSON.parse(err.body || '{}') as { message?: string };
    return { status: err.status, message: message ?? err.message };
  }
  return assert.fail('it was let in');
}
