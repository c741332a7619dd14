import type { Duplex } from 'node:stream';
import type { AgentLog, WorkspaceAgent } from '@platform/contract';
import { AppError } from '@platform/kit';
import { CAPABILITIES_HEADER, formatCapabilities } from '@platform/wire/capabilities';
import { splice } from '@platform/wire/splice';
import { byteStream } from '@platform/wire/websocket';
import type { FastifyRequest } from 'fastify';
import { setAppStatus } from '../../app/agent/app-status.ts';
import { findAgentForToken, findReadableAgent } from '../../app/agent/find.ts';
import { createLogSource, listAgentLogs, patchAgentLogs, streamAgentLogs } from '../../app/agent/logs.ts';
import { watchMetadata } from '../../app/agent/metadata.ts';
import { streamReinit } from '../../app/agent/reinit.ts';
import { whileAllowed } from '../../app/allowed.ts';
import type { Ctx } from '../../app/context.ts';
import { agentConnectionInfo } from '../../app/deployment/info.ts';
import { followAsEvents, followAsMessages } from '../../app/event-stream.ts';
import { ownGitSshKey } from '../../app/user/gitsshkey.ts';
import { workspaceObject } from '../../app/workspace/find.ts';
import { agentsWhere } from '../../app/workspace/resources.ts';
import { authorize } from '../../authz/authorize.ts';
import { countConnection } from '../../db/queries/agents.ts';
import { type AgentConnections, acceptHostKey, agentUpgradeHeaders, HOST_KEY_HEADER } from '../../rpc/agents.ts';
import { requestToken } from '../auth.ts';
import { defineHandlers } from '../exchange.ts';

const SERVICES = new Set(['ssh', 'tcp', 'udp', 'ping', 'speedtest']);

/** Agents as people see them, what agents themselves call, and the way into a workspace. */
export function agentHandlers(connections: AgentConnections) {
  const self = (ctx: Ctx, request: FastifyRequest) => findAgentForToken(ctx, requestToken(request)?.token);
  return defineHandlers({
    'GET /workspaceagents/{workspaceagent}': async (ctx, { params }): Promise<WorkspaceAgent> => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      return (await agentsWhere(ctx, ctx.sql, { agentIds: [agent.id] }))[0]!;
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
      void streamAgentLogs(ctx, http.upgrade(), agent, query.after);
      return [];
    },
    'GET /workspaceagents/{workspaceagent}/watch-metadata': async (ctx, { params, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      void followAsEvents(ctx, http.reply, watchMetadata(ctx, agent));
    },
    'GET /workspaceagents/{workspaceagent}/watch-metadata-ws': async (ctx, { params, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      void followAsMessages(ctx, http.upgrade(), watchMetadata(ctx, agent));
    },
    'GET /workspaceagents/{workspaceagent}/tunnel': async (ctx, { params, query, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      authorize(ctx, 'ssh', workspaceObject(agent));
      const service = query.service ?? 'ssh';
      if (!SERVICES.has(service)) throw new AppError('invalid', `Unknown service ${JSON.stringify(service)}.`);
      const holder = ctx.actor.kind === 'user' ? { user: ctx.actor.id, key: ctx.actor.apiKeyId } : undefined;
      // an agent without it is served plainly, and the client sees that by the answer's header
      const resume = holder && connections.offers(agent.id, 'resume/1') ? query.resume : undefined;
      if (query.resume === 'attach' && !resume) throw new AppError('unavailable', 'The agent is not connected.');
      // from here on: the agent may take its time to answer
      const revoked = new AbortController();
      const stopWatching = whileAllowed(ctx, { action: 'ssh', object: workspaceObject(agent) }, () => {
        revoked.abort(new AppError('forbidden', 'The right to this workspace was taken back.'));
        if (holder) connections.forget({ users: [], keys: [holder.key] }, agent.id);
      });
      try {
        const inside = await connections.open(
          agent.id,
          {
            service,
            ...(query.port === undefined ? {} : { port: query.port }),
            ...(resume ? { resume, holder } : {}),
          },
          AbortSignal.any([ctx.signal, revoked.signal]),
        );
        const outside = upgradeOr(inside, () =>
          byteStream(
            http.upgrade({
              [HOST_KEY_HEADER]: agent.ssh_host_key,
              ...(resume ? { [CAPABILITIES_HEADER]: formatCapabilities(['resume/1']) } : {}),
            }),
          ),
        );
        revoked.signal.addEventListener('abort', () => outside.destroy());
        void splice(outside, inside)
          .catch((err) => ctx.log.debug('tunnel ended', { agent_id: agent.id, err }))
          .finally(stopWatching);
      } catch (err) {
        stopWatching();
        throw err;
      }
    },
    'GET /workspaceagents/me/rpc': async (ctx, { http }) => {
      const { headers } = http.request;
      const agent = await self(ctx, http.request);
      checkVersion(String((http.request.query as Record<string, unknown>)['version'] ?? '2.0'));
      await acceptHostKey(ctx, agent, String(headers[HOST_KEY_HEADER] ?? ''));
      const offered = headers['platform-capabilities'];
      const number = await countConnection(ctx.sql, agent.id, Object.keys(agentUpgradeHeaders(offered)).length > 0);
      void connections.serve(http.upgrade(agentUpgradeHeaders(offered)), agent, number, offered);
    },
    'GET /workspaceagents/me/reinit': async (ctx, { http }) =>
      streamReinit(ctx, http.reply, await self(ctx, http.request)),
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
      return ownGitSshKey(ctx, agent.owner_id);
    },
  });
}

/** What `upgrade` gives; where it can't, the stream into the workspace does not stay behind. */
export function upgradeOr<T>(inside: Duplex, upgrade: () => T): T {
  try {
    return upgrade();
  } catch (err) {
    inside.destroy();
    throw err;
  }
}

function checkVersion(text: string): void {
  const parts = /^(\d+)\.(\d+)$/.exec(text);
  if (parts && Number(parts[1]) === 2 && Number(parts[2]) <= 6) return;
  const detail = `${JSON.stringify(text)} is not 2.0 to 2.6`;
  throw new AppError('invalid', 'Unknown or unsupported API version', { validations: [{ field: 'version', detail }] });
}
