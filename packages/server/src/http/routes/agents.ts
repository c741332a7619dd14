import type { AgentLog, RouteQuery } from '@ropewalk/contract';
import { parseCapabilities } from '@ropewalk/wire/capabilities';
import type { FastifyRequest } from 'fastify';
import { admitAgent } from '../../app/agent/admit.ts';
import { setAppStatus } from '../../app/agent/app-status.ts';
import { changeDevcontainer, containersSource, listContainers, type OpenService } from '../../app/agent/containers.ts';
import { agentInitScript } from '../../app/agent/external.ts';
import { openExternalApp } from '../../app/agent/external-apps.ts';
import { agentExternalAuth } from '../../app/agent/external-auth.ts';
import { agentLogSource, createLogSource, listAgentLogs, patchAgentLogs } from '../../app/agent/logs.ts';
import { metadataSource } from '../../app/agent/metadata.ts';
import { getAgent } from '../../app/agent/read.ts';
import { reinitSource } from '../../app/agent/reinit.ts';
import { tunnelRequest } from '../../app/agent/tunnel.ts';
import type { AgentWrites } from '../../app/agent/writes.ts';
import type { Ctx } from '../../app/context/context.ts';
import { findAgentForToken, findReadableAgent, findReadyAgent } from '../../app/find/agent.ts';
import { connectionInfo } from '../../app/tailnet/derp-map.ts';
import { agentGitSshKey } from '../../app/user/gitsshkey.ts';
import type { ProxyHealth } from '../../app/workspace-proxy/health.ts';
import type { AgentReach } from '../../cluster/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { type AgentConnections, agentUpgradeHeaders, HOST_KEY_HEADER } from '../../rpc/agent/connections.ts';
import type { Departure } from '../../rpc/departure.ts';
import { requestToken } from '../auth.ts';
import { defineHandlers, type Exchange, requireUpgrade } from '../exchange.ts';
import { followAsEvents, followAsMessages, followAsTexts } from '../follow.ts';
import { relayToAgent } from '../relay.ts';
import type { TunnelPaths } from '../tunnel-paths.ts';

type TunnelQuery = RouteQuery<'GET /workspaceagents/{workspaceagent}/tunnel'>;
/** The header that names the agent to a client that asked by the name of a workspace. */
const AGENT_HEADER = 'platform-agent-id';

/** The routes for people about agents, those that agents call themselves, and the tunnels to agents. */
export function agentHandlers(
  agents: AgentReach,
  connections: Pick<AgentConnections, 'serve'>,
  writes: AgentWrites,
  departure: Pick<Departure, 'check'>,
  proxies: { paths: Pick<TunnelPaths, 'accept'>; health: Pick<ProxyHealth, 'served'> },
) {
  const self = (ctx: Ctx, request: FastifyRequest) => findAgentForToken(ctx, requestToken(request)?.token);
  const tunnel = (ctx: Ctx, http: Exchange, agent: AgentIdentity, query: TunnelQuery) =>
    relayToAgent(ctx, http, agents, {
      agent,
      request: tunnelRequest(ctx, query),
      resume: query.resume,
      hasProxies: proxies.health.served().length > 0,
      headers: { [HOST_KEY_HEADER]: agent.ssh_host_key, [AGENT_HEADER]: agent.id },
    });
  const service =
    (agent: AgentIdentity, signal?: AbortSignal): OpenService =>
    (request) =>
      agents.open(agent.id, request, signal);
  return defineHandlers({
    'GET /init-script/{os}/{arch}': (ctx, { params, http }) => {
      http.reply.type('text/plain; charset=utf-8');
      return Buffer.from(agentInitScript(ctx, params.os, params.arch));
    },
    'GET /workspaceagents/{workspaceagent}': (ctx, { params }) => getAgent(ctx, params.workspaceagent),
    'POST /workspaceagents/{workspaceagent}/app-link': (ctx, { params, body }) =>
      openExternalApp(ctx, params.workspaceagent, body),
    'GET /workspaceagents/{workspaceagent}/connection': async (ctx, { params }) => {
      await findReadableAgent(ctx, params.workspaceagent);
      return connectionInfo(ctx);
    },
    'GET /workspaceagents/{workspaceagent}/containers': async (ctx, { params, query }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      return listContainers(service(agent, ctx.signal), query);
    },
    'GET /workspaceagents/{workspaceagent}/containers/watch': async (ctx, { params, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      requireUpgrade(http);
      const source = await containersSource(agent, service(agent));
      void followAsTexts(ctx, http.upgrade(), source);
    },
    'POST /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}/recreate': async (
      ctx,
      { params, http },
    ) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      await changeDevcontainer(ctx, agent, service(agent), { action: 'recreate', id: params.devcontainer });
      http.reply.code(202);
      return { message: 'The dev container is being recreated.' };
    },
    'DELETE /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}': async (ctx, { params }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      await changeDevcontainer(ctx, agent, service(agent), { action: 'remove', id: params.devcontainer });
    },
    'GET /workspaceagents/me/external-auth': async (ctx, { query, http }) =>
      agentExternalAuth(ctx, () => self(ctx, http.request), query),
    'GET /workspaceagents/me/gitauth': async (ctx, { query, http }) =>
      agentExternalAuth(ctx, () => self(ctx, http.request), query),
    'GET /workspaceagents/{workspaceagent}/logs': async (ctx, { params, query, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      if (!query.follow) return listAgentLogs(ctx, agent.id, query);
      void followAsTexts(ctx, http.upgrade(), agentLogSource(ctx, agent, query.after));
      return [];
    },
    'GET /workspaceagents/{workspaceagent}/watch-metadata': async (ctx, { params, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      void followAsEvents(ctx, http.reply, metadataSource(ctx, agent));
    },
    'GET /workspaceagents/{workspaceagent}/watch-metadata-ws': async (ctx, { params, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      void followAsMessages(ctx, http.upgrade(), metadataSource(ctx, agent));
    },
    'GET /workspaceagents/{workspaceagent}/tunnel': async (ctx, { params, query, http }) =>
      tunnel(ctx, http, await findReadableAgent(ctx, params.workspaceagent), query),
    'GET /users/{user}/workspace/{workspacename}/tunnel': async (ctx, { params, query, http }) =>
      tunnel(ctx, http, await findReadyAgent(ctx, params.user, params.workspacename, query.agent ?? ''), query),
    'GET /workspaceagents/{workspaceagent}/proxy-path': async (ctx, { params, query, http }) =>
      proxies.paths.accept(ctx, http, await findReadableAgent(ctx, params.workspaceagent), query),
    'GET /workspaceagents/me/rpc': async (ctx, { http }) => {
      departure.check();
      const { headers } = http.request;
      const agent = await self(ctx, http.request);
      const offered = headers['platform-capabilities'];
      const answer = agentUpgradeHeaders(offered);
      const query = http.request.query as Record<string, unknown>;
      const admitted = await admitAgent(ctx, writes, agent, {
        version: String(query['version'] ?? '2.0'),
        role: String(query['role'] ?? ''),
        hostKey: String(headers[HOST_KEY_HEADER] ?? ''),
        capabilities: [...parseCapabilities(offered)],
      });
      void connections.serve(http.upgrade(answer), agent, admitted, offered);
    },
    'GET /workspaceagents/me/reinit': async (ctx, { http }) =>
      followAsEvents(ctx, http.reply, reinitSource(ctx, await self(ctx, http.request))),
    'POST /workspaceagents/me/log-source': async (ctx, { body, http }) =>
      createLogSource(ctx, await self(ctx, http.request), body),
    'PATCH /workspaceagents/me/logs': async (ctx, { body, http }) => {
      await patchAgentLogs(ctx, await self(ctx, http.request), body.log_source_id, (body.logs ?? []) as AgentLog[]);
      return { message: 'Logs were written.' };
    },
    'PATCH /workspaceagents/me/app-status': async (ctx, { body, http }) => {
      await setAppStatus(ctx, await self(ctx, http.request), body);
      return { message: 'The status of the app was set.' };
    },
    'GET /workspaceagents/me/gitsshkey': async (ctx, { http }) => agentGitSshKey(ctx, await self(ctx, http.request)),
  });
}
