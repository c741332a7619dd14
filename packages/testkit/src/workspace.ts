import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type RunningAgent, runAgent } from '@ropewalk/agent';
import type { Workspace, WorkspaceAgent, WorkspaceBuild } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import { completeJob } from '@ropewalk/server/app/job/complete';
import { CAPABILITIES_HEADER } from '@ropewalk/wire/capabilities';
import { type CompletedJob_WorkspaceBuildSchema, CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import type { TestServer } from './server.ts';
import { startPipe } from './tcp-proxy.ts';
import { createTestTemplate, takeJob } from './template.ts';
import { eventually } from './wait.ts';

type Resources = NonNullable<MessageInitShape<typeof CompletedJob_WorkspaceBuildSchema>['resources']>;
type AgentInit = NonNullable<Resources[number]['agents']>[number];

/** A running workspace with a connected agent. `stop` ends the agent, not the workspace. */
export interface TestWorkspace {
  workspace: Workspace;
  agentId: string;
  agent: RunningAgent;
  /** The agent's token. */
  token: string;
  /** The home and working directory of its sessions. Removed with the workspace. */
  home: string;
  /** Returns the agent as the API describes it now. */
  look(): Promise<WorkspaceAgent>;
  stop(): Promise<void>;
}

export interface TestWorkspaceOptions {
  /** More properties of the agent, as a template declares it. */
  agent?: Partial<AgentInit>;
  /** The variables that its processes inherit, in addition to PATH and HOME. */
  env?: NodeJS.ProcessEnv;
  /** The path of the coder command for the agent. */
  executable?: string;
  /** The path of the agent's local socket. Default: none. */
  socketPath?: string;
  /** The token of the workspace owner. Default: the first user's. */
  token?: string;
  /** The prompt of a task. The first app of the agent is that of the task. */
  task?: string;
  /** Whether to wait until its startup scripts have ended (default true). */
  ready?: boolean;
  /** The agent and the server meet as upstream's agent and this server do: neither knows the other's tunnels. */
  withoutTunnels?: boolean;
}

/** Starts a workspace whose build Terraform never ran, with a real agent in this process. */
export async function startTestWorkspace(
  server: TestServer,
  name: string,
  options: TestWorkspaceOptions = {},
): Promise<TestWorkspace> {
  const { env = {}, executable, token, socketPath } = options;
  const home = mkdtempSync(join(tmpdir(), 'platform-workspace-'));
  const template = await createTestTemplate(server, `of-${name}`, { hasAiTasks: options.task !== undefined });
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: {
      name,
      template_id: template.id,
      ...(options.task === undefined ? {} : { rich_parameter_values: [{ name: 'AI Prompt', value: options.task }] }),
    },
    ...(token ? { token } : {}),
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const own = await takeJob(server);
  const agentToken = crypto.randomUUID();
  const agents = [
    {
      id: crypto.randomUUID(),
      name: 'main',
      operatingSystem: process.platform,
      architecture: process.arch,
      connectionTimeoutSeconds: 120,
      directory: home,
      ...options.agent,
      auth: { case: 'token' as const, value: agentToken },
    },
  ] as AgentInit[];
  const appId = agents[0]!.apps?.[0]?.id;
  const value = {
    resources: [{ name: 'machine', type: 'vm', agents }],
    aiTasks: options.task === undefined ? [] : [{ id: crypto.randomUUID(), ...(appId ? { appId } : {}) }],
  };
  const type = { case: 'workspaceBuild' as const, value };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const build = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`);
  const agentId = build.body.resources[0]!.agents![0]!.id;
  const front = options.withoutTunnels ? await startFront(server.url) : undefined;
  const agent = runAgent({
    url: front?.url ?? server.url,
    token: agentToken,
    version: 'v0.1.0',
    log: silentLogger,
    scriptDataDir: home,
    logDir: home,
    reconnectCapMs: 200,
    env: { PATH: process.env['PATH'], HOME: home, SHELL: '/bin/sh', ...env },
    ...(executable ? { executable } : {}),
    ...(socketPath ? { socketPath } : {}),
  });
  const look = async () => (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${agentId}`)).body;
  await eventually('the agent to connect', async () => {
    const { status, lifecycle_state: life } = await look();
    return status === 'connected' && (options.ready === false || !['created', 'starting'].includes(life));
  });
  return {
    workspace: made.body,
    agentId,
    agent,
    token: agentToken,
    home,
    look,
    async stop() {
      await agent.stop();
      front?.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The server as a server without tunnels sees its agents. */
async function startFront(url: string): Promise<{ url: string; close(): void }> {
  const { hostname: host, port } = new URL(url);
  const pipe = await startPipe({ host, port: Number(port) }, undefined, (head) =>
    Buffer.from(head.toString('latin1').replace(`${CAPABILITIES_HEADER}:`, 'x-nothing:'), 'latin1'),
  );
  return { url: `http://127.0.0.1:${pipe.port}`, close: pipe.close };
}
