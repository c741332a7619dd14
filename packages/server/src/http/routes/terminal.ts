import { AppError } from '@platform/kit';
import { splice } from '@platform/wire/splice';
import { byteStream } from '@platform/wire/websocket';
import { findReadableAgent } from '../../app/agent/find.ts';
import { readListeningPorts } from '../../app/agent/ports.ts';
import { terminalRequest } from '../../app/agent/terminal.ts';
import { whileAllowed } from '../../app/allowed.ts';
import { workspaceObject } from '../../app/workspace/find.ts';
import { authorize } from '../../authz/authorize.ts';
import type { AgentConnections } from '../../rpc/agents.ts';
import { defineHandlers } from '../exchange.ts';

/** The terminal of the browser, and which ports a workspace has to offer. */
export function terminalHandlers(connections: AgentConnections) {
  return defineHandlers({
    'GET /workspaceagents/{workspaceagent}/pty': async (ctx, { params, query, http }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      const permission = { action: 'ssh', object: workspaceObject(agent) } as const;
      authorize(ctx, permission.action, permission.object);
      const request = terminalRequest(ctx, query);
      if (!http.isUpgrade) throw new AppError('invalid', 'This route is a WebSocket: ask for an upgrade.');
      const inside = await connections.open(agent.id, request, ctx.signal);
      const outside = byteStream(http.upgrade());
      const stopWatching = whileAllowed(ctx, permission, () => outside.destroy());
      void splice(outside, inside)
        .catch((err) => ctx.log.debug('terminal ended', { agent_id: agent.id, err }))
        .finally(stopWatching);
    },
    'GET /workspaceagents/{workspaceagent}/listening-ports': async (ctx, { params }) => {
      const agent = await findReadableAgent(ctx, params.workspaceagent);
      authorize(ctx, 'read', workspaceObject(agent));
      const ports = await readListeningPorts(await connections.open(agent.id, { service: 'ports' }, ctx.signal));
      return { ports };
    },
  });
}
