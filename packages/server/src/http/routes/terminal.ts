import type { RouteKey } from '@platform/contract';
import type { FastifyRequest } from 'fastify';
import { findReadableAgent } from '../../app/agent/find.ts';
import { readListeningPorts } from '../../app/agent/ports.ts';
import { terminalRequest } from '../../app/agent/terminal.ts';
import type { Services } from '../../app/context.ts';
import { actorOf } from '../../app/session.ts';
import { workspaceObject } from '../../app/workspace/find.ts';
import { readTerminalPass } from '../../app/workspace-app/sign-in.ts';
import type { AppTokens } from '../../app/workspace-app/tokens.ts';
import type { Actor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import { apiKeyById } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import type { AgentConnections } from '../../rpc/agents.ts';
import { carryService } from '../carry.ts';
import { defineHandlers } from '../exchange.ts';
import { heartbeat } from '../heartbeat.ts';

export const PTY = 'GET /workspaceagents/{workspaceagent}/pty';
/** As published. */
const PASS_PARAM = 'coder_signed_app_token_23db1dde';

/** Lets in who has a pass for the terminal of the agent that is asked for, as the person to whom it was given. */
export function terminalPass(services: Services, tokens: AppTokens) {
  return async (route: RouteKey, { params, query }: FastifyRequest): Promise<Actor | undefined> => {
    const text = (query as Record<string, unknown> | undefined)?.[PASS_PARAM];
    if (route !== PTY || typeof text !== 'string') return undefined;
    const { workspaceagent } = params as { workspaceagent: string };
    const pass = readTerminalPass(services, tokens, workspaceagent, text);
    if (!pass) return undefined;
    const [key, user] = await Promise.all([apiKeyById(services.sql, pass.key), userById(services.sql, pass.user)]);
    // the session that it was made from may have ended since
    if (!key || key.user_id !== user?.id || key.expires_at <= services.clock.now()) return undefined;
    if (user.status === 'suspended') return undefined;
    return actorOf(user, key);
  };
}

/** The terminal of the browser, and which ports a workspace has to offer. */
export function terminalHandlers(connections: AgentConnections) {
  return defineHandlers({
    [PTY]: async (ctx, { params, query, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      await carryService(ctx, http, connections, {
        agent,
        request: terminalRequest(ctx, query),
        onConnection: heartbeat,
      });
    },
    'GET /workspaceagents/{workspaceagent}/listening-ports': async (ctx, { params }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      authorize(ctx, 'read', workspaceObject(agent));
      const ports = await readListeningPorts(await connections.open(agent.id, { service: 'ports' }, ctx.signal));
      return { ports };
    },
  });
}
