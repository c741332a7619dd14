import type { RouteKey } from '@ropewalk/contract';
import type { FastifyRequest } from 'fastify';
import { readListeningPorts } from '../../app/agent/ports.ts';
import { terminalRequest } from '../../app/agent/terminal.ts';
import type { Services } from '../../app/context/context.ts';
import type { AppTokens } from '../../app/context/sealed-tokens.ts';
import { findReadableAgent } from '../../app/find/agent.ts';
import { workspaceObject } from '../../app/find/workspace.ts';
import { actorOfTerminalPass } from '../../app/workspace-app/sign-in.ts';
import type { Actor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import type { AgentReach } from '../../cluster/agents.ts';
import { defineHandlers } from '../exchange.ts';
import { heartbeat } from '../heartbeat.ts';
import { relayToAgent } from '../relay.ts';

export const PTY = 'GET /workspaceagents/{workspaceagent}/pty';
/** Upstream's name of the parameter. */
const PASS_PARAM = 'coder_signed_app_token_23db1dde';

/** Authenticates a request for a terminal that has a pass instead of a session token, as the person who got the pass. */
export function terminalPass(services: Services, tokens: AppTokens) {
  return async (route: RouteKey, { params, query }: FastifyRequest): Promise<Actor | undefined> => {
    const text = (query as Record<string, unknown> | undefined)?.[PASS_PARAM];
    if (route !== PTY || typeof text !== 'string') return undefined;
    const { workspaceagent } = params as { workspaceagent: string };
    return actorOfTerminalPass(services, tokens, workspaceagent, text);
  };
}

/** The terminal in the browser, and the ports on which programs of a workspace listen. */
export function terminalHandlers(agents: AgentReach) {
  return defineHandlers({
    [PTY]: async (ctx, { params, query, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      await relayToAgent(ctx, http, agents, {
        agent,
        request: terminalRequest(ctx, query),
        onConnection: heartbeat,
      });
    },
    'GET /workspaceagents/{workspaceagent}/listening-ports': async (ctx, { params }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      authorize(ctx, 'read', workspaceObject(agent));
      const ports = await readListeningPorts(await agents.open(agent.id, { service: 'ports' }, ctx.signal));
      return { ports };
    },
  });
}
