import { Type } from 'typebox';
import { Response, ServerSentEvent } from '../schema/common.ts';
import { Line, LogPosition } from '../schema/kit.ts';
import {
  AgentConnectionInfo,
  AgentExternalAuthResponse,
  AgentGitSSHKey,
  AgentPatchLogs,
  AppLink,
  AppLinkRequest,
  AuthenticateResponse,
  AWSInstanceIdentityToken,
  AzureInstanceIdentityToken,
  GoogleInstanceIdentityToken,
  PatchAppStatus,
  PostLogSourceRequest,
  ReinitializationEvent,
  WorkspaceAgent,
  WorkspaceAgentListContainersResponse,
  WorkspaceAgentLog,
  WorkspaceAgentLogSource,
  WorkspaceAgentMetadata,
} from '../schema/workspace-agents.ts';
import { Nothing, route } from './kit.ts';
import { harmless, unknownKeys } from './unknown-keys.ts';

/** The maximum number of labels in one query. */
const MAX_LABELS = 100;

const tunnelQuery = {
  service: Type.Optional(Type.String()),
  /** A port of the workspace's loopback, for the service `tcp`. */
  port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535 })),
  /** Requests a session that outlives its connection (`new`), or another connection for one (`attach`). */
  resume: Type.Optional(Type.Union([Type.Literal('new'), Type.Literal('attach')])),
};

const tailnetQuery = Type.Object({
  /** The version of the tailnet API, as MAJOR.MINOR. */
  version: Type.Optional(Type.String()),
  /** Lets the client keep its id when it connects again. */
  resume_token: Type.Optional(Type.String()),
});

const agentExternalAuth = route({
  tag: 'Agents',
  auth: 'agent',
  query: Type.Object({
    match: Type.Optional(Type.String()),
    id: Type.Optional(Type.String()),
    /** Whether to answer only once the owner has connected the account. */
    listen: Type.Optional(Type.Boolean()),
  }),
  responses: { 200: AgentExternalAuthResponse },
});

export const agentsRoutes = {
  'GET /init-script/{os}/{arch}': route({
    tag: 'Agents',
    auth: 'none',
    summary: 'The script that downloads and starts an agent. It reads the agent token from CODER_AGENT_TOKEN.',
    params: Type.Object({ os: Type.String(), arch: Type.String() }),
    stream: 'bytes',
    responses: { 200: Nothing },
  }),
  'GET /derp-map': route({
    tag: 'Agents',
    auth: 'session',
    summary: 'The relays and STUN servers, as one JSON object in a binary message.',
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'GET /tailnet': route({
    tag: 'Agents',
    auth: 'session',
    summary: "The control connection of upstream's desktop application, which may reach several agents.",
    query: tailnetQuery,
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'GET /workspaceagents/connection': route({
    tag: 'Agents',
    auth: 'session',
    responses: { 200: AgentConnectionInfo },
  }),
  'POST /workspaceagents/aws-instance-identity': route({
    tag: 'Agents',
    auth: 'none',
    body: AWSInstanceIdentityToken,
    unknownKeys: unknownKeys('access'),
    responses: { 200: AuthenticateResponse },
  }),
  'POST /workspaceagents/azure-instance-identity': route({
    tag: 'Agents',
    auth: 'none',
    body: AzureInstanceIdentityToken,
    unknownKeys: unknownKeys('access'),
    responses: { 200: AuthenticateResponse },
  }),
  'POST /workspaceagents/google-instance-identity': route({
    tag: 'Agents',
    auth: 'none',
    body: GoogleInstanceIdentityToken,
    unknownKeys: unknownKeys('access'),
    responses: { 200: AuthenticateResponse },
  }),
  'GET /workspaceagents/me/external-auth': agentExternalAuth,
  // the older name, which old agents call
  'GET /workspaceagents/me/gitauth': agentExternalAuth,
  'GET /workspaceagents/me/gitsshkey': route({
    tag: 'Agents',
    auth: 'agent',
    responses: { 200: AgentGitSSHKey },
  }),
  'POST /workspaceagents/me/log-source': route({
    tag: 'Agents',
    auth: 'agent',
    body: PostLogSourceRequest,
    unknownKeys: unknownKeys('report'),
    responses: { 201: WorkspaceAgentLogSource },
  }),
  'PATCH /workspaceagents/me/logs': route({
    tag: 'Agents',
    auth: 'agent',
    body: AgentPatchLogs,
    unknownKeys: unknownKeys('report', { 'logs.source': harmless('where a line came from') }),
    responses: { 200: Response },
  }),
  'PATCH /workspaceagents/me/app-status': route({
    tag: 'Agents',
    auth: 'agent',
    body: PatchAppStatus,
    unknownKeys: unknownKeys('report'),
    responses: { 200: Response },
  }),
  'GET /workspaceagents/me/reinit': route({
    tag: 'Agents',
    auth: 'agent',
    stream: 'sse',
    responses: { 200: ReinitializationEvent },
  }),
  'GET /workspaceagents/me/rpc': route({
    tag: 'Agents',
    auth: 'agent',
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  // Our own: a byte stream to a service of a connected agent.
  'GET /workspaceagents/{workspaceagent}/tunnel': route({
    tag: 'Agents',
    auth: 'session',
    summary: "A byte stream to a service of the workspace's agent, such as its SSH server.",
    params: Type.Object({ workspaceagent: Type.String() }),
    query: Type.Object(tunnelQuery),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  // Our own: the path of tunnels through a workspace proxy.
  'GET /workspaceagents/{workspaceagent}/proxy-path': route({
    tag: 'Agents',
    auth: 'session',
    summary:
      'Permits for tunnels to the agent through a workspace proxy, as JSON, until the client closes the WebSocket.',
    params: Type.Object({ workspaceagent: Type.String() }),
    query: Type.Object({
      /** The id of the proxy. Required, but checked after the permission. */
      proxy: Type.Optional(Type.String()),
      /** A UUID of the client for this path. The same after a lost connection. */
      path: Type.Optional(Type.String()),
    }),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  // Our own: the same in one request if the agent is ready. Every other case has its own error.
  'GET /users/{user}/workspace/{workspacename}/tunnel': route({
    tag: 'Agents',
    auth: 'session',
    summary: 'A byte stream to a service of an agent that is ready, of a running workspace by its name.',
    params: Type.Object({ user: Type.String(), workspacename: Type.String() }),
    query: Type.Object({
      /** The agent's name. Optional if there is only one. */
      agent: Type.Optional(Type.String()),
      ...tunnelQuery,
    }),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'GET /workspaceagents/{workspaceagent}': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    responses: { 200: WorkspaceAgent },
  }),
  'GET /workspaceagents/{workspaceagent}/connection': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    responses: { 200: AgentConnectionInfo },
  }),
  'GET /workspaceagents/{workspaceagent}/coordinate': route({
    tag: 'Agents',
    auth: 'session',
    summary: "The control connection of upstream's clients, which introduces them to this agent.",
    params: Type.Object({ workspaceagent: Type.String() }),
    query: tailnetQuery,
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'POST /workspaceagents/{workspaceagent}/app-link': route({
    tag: 'Agents',
    auth: 'session',
    summary: 'Returns the address that opens an external app, with a session token if the app may get one.',
    params: Type.Object({ workspaceagent: Type.String() }),
    body: AppLinkRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: AppLink },
  }),
  'GET /workspaceagents/{workspaceagent}/containers': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    /** Only containers with each of these labels, each as `key=value`. */
    query: Type.Object({ label: Type.Optional(Type.Array(Line, { maxItems: MAX_LABELS })) }),
    responses: { 200: WorkspaceAgentListContainersResponse },
  }),
  'GET /workspaceagents/{workspaceagent}/containers/watch': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    stream: 'websocket',
    responses: { 200: WorkspaceAgentListContainersResponse },
  }),
  'POST /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}/recreate': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String(), devcontainer: Type.String() }),
    responses: { 202: Response },
  }),
  'DELETE /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}': route({
    tag: 'Agents',
    auth: 'session',
    summary: "Stops and removes a dev container's container, and cancels its start. Its files in the workspace stay.",
    params: Type.Object({ workspaceagent: Type.String(), devcontainer: Type.String() }),
    responses: { 204: Nothing },
  }),
  'GET /workspaceagents/{workspaceagent}/watch-metadata': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    stream: 'sse',
    responses: { 200: Type.Array(WorkspaceAgentMetadata) },
  }),
  'GET /workspaceagents/{workspaceagent}/watch-metadata-ws': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    stream: 'websocket',
    responses: { 200: ServerSentEvent },
  }),
  'GET /workspaceagents/{workspaceagent}/logs': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    query: Type.Object({
      before: Type.Optional(LogPosition),
      after: Type.Optional(LogPosition),
      follow: Type.Optional(Type.Boolean()),
      no_compression: Type.Optional(Type.Boolean()),
    }),
    responses: { 200: Type.Array(WorkspaceAgentLog) },
  }),
} as const;
