import type { AgentLog, RouteQuery, WorkspaceAgent } from '@platform/contract';
import { AppError } from '@platform/kit';
import type { FastifyRequest } from 'fastify';
import { setAppStatus } from '../../app/agent/app-status.ts';
import { findAgentForToken, findReadableAgent, findReadyAgent } from '../../app/agent/find.ts';
import { agentLogSource, createLogSource, listAgentLogs, patchAgentLogs } from '../../app/agent/logs.ts';
import { metadataSource } from '../../app/agent/metadata.ts';
import { reinitSource } from '../../app/agent/reinit.ts';
import type { Ctx } from '../../app/context.ts';
import { agentConnectionInfo } from '../../app/deployment/info.ts';
import { ensureGitSshKey } from '../../app/user/gitsshkey.ts';
import { readAgents } from '../../app/workspace/resources.ts';
import { type AgentIdentity, countConnection } from '../../db/queries/agents.ts';
import { type AgentConnections, acceptHostKey, agentUpgradeHeaders, HOST_KEY_HEADER } from '../../rpc/agents.ts';
import { requestToken } from '../auth.ts';
import { carryService } from '../carry.ts';
import { defineHandlers, type Exchange } from '../exchange.ts';
import { followAsEvents, followAsMessages, followAsTexts } from '../follow.ts';

type TunnelQuery = RouteQuery<'GET /workspaceagents/{workspaceagent}/tunnel'>;
const SERVICES = new Set(['ssh', 'tcp', 'udp', 'ping', 'speedtest']);
/** Which agent answers, for who asked by a workspace's name. */
const AGENT_HEADER = 'platform-agent-id';

/** Agents as people see them, what agents themselves call, and the way into a workspace. */
export function agentHandlers(connections: AgentConnections) {
  const self = (ctx: Ctx, request: FastifyRequest) => findAgentForToken(ctx, requestToken(request)?.token);
  const tunnel = (ctx: Ctx, http: Exchange, agent: AgentIdentity, query: TunnelQuery) => {
    if (ctx.config.browserOnly) {
      throw new AppError('forbidden', 'This installation lets people reach workspaces through the browser only.');
    }
    const { service = 'ssh', port, resume } = query;
    if (!SERVICES.has(service)) throw new AppError('invalid', `Unknown service ${JSON.stringify(service)}.`);
    return carryService(ctx, http, connections, {
      agent,
      request: { service, ...(port === undefined ? {} : { port }) },
      resume,
      headers: { [HOST_KEY_HEADER]: agent.ssh_host_key, [AGENT_HEADER]: agent.id },
    });
  };
  return defineHandlers({
    'GET /workspaceagents/{workspaceagent}': async (ctx, { params }): Promise<WorkspaceAgent> => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      return (await readAgents(ctx, ctx.sql, { agentIds: [agent.id] }))[0]!;
    },
    'GET /workspaceagents/{workspaceagent}/connection': async (ctx, { params }) => {
      await findReadableAgent(ctx, params.workspaceagent);
      return agentConnectionInfo(ctx);
    },
    // agents of this platform run no containers of their own
    'GET /workspaceagents/{workspaceagent}/containers': async (ctx, { params }) => {
      await findReadableAgent(ctx, params.workspaceagent);
      return { containers: [], devcontainers: [] };
    },
    'GET /workspaceagents/me/external-auth': async (ctx, { query, http }) => {
      await self(ctx, http.request);
      if (!query.match && !query.id) {
        throw new AppError('invalid', "'match' or 'id' must be provided as query parameters!");
      }
      // no provider can be set up on this server yet, so that none ever matches
      throw new AppError('not_found', 'No matching external auth provider was found.', {
        detail: `Asked for ${JSON.stringify(query.id || query.match)}.`,
      });
    },
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
    'GET /workspaceagents/me/rpc': async (ctx, { http }) => {
      const { headers } = http.request;
      const agent = await self(ctx, http.request);
      checkVersion(String((http.request.query as Record<string, unknown>)['version'] ?? '2.0'));
      await acceptHostKey(ctx, agent, String(headers[HOST_KEY_HEADER] ?? ''));
      const offered = headers['platform-capabilities'];
      const number = await countConnection(ctx.sql, agent, Object.keys(agentUpgradeHeaders(offered)).length > 0);
      void connections.serve(http.upgrade(agentUpgradeHeaders(offered)), agent, number, offered);
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
    'GET /workspaceagents/me/gitsshkey': async (ctx, { http }) => {
      const agent = await self(ctx, http.request);
      if (agent.api_key_scope === 'no_user_data')
        throw new AppError('forbidden', 'This agent may not read data of its owner.');
      return ensureGitSshKey(ctx, ctx.sql, agent.owner_id);
    },
  });
}

function checkVersion(text: string): void {
  const parts = /^(\d+)\.(\d+)$/.exec(text);
  if (parts && Number(parts[1]) === 2 && Number(parts[2]) <= 6) return;
  const detail = `${JSON.stringify(text)} is not 2.0 to 2.6`;
  throw new AppError('invalid', 'Unknown or unsupported API version', { validations: [{ field: 'version', detail }] });
}
