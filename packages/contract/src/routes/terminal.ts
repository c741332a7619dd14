import { Type } from 'typebox';
import { WorkspaceAgentListeningPortsResponse } from '../schema/workspace-agents.ts';
import { Nothing, route } from './kit.ts';

/** In characters, up to the limit of a terminal's own numbers. */
const Size = Type.Integer({ minimum: 0, maximum: 65_535 });

export const terminalRoutes = {
  'GET /workspaceagents/{workspaceagent}/pty': route({
    tag: 'Agents',
    auth: 'session',
    summary: 'A terminal in the workspace. A client that reconnects with the same `reconnect` resumes it.',
    params: Type.Object({ workspaceagent: Type.String() }),
    query: Type.Object({
      /** A UUID that the client chooses. */
      reconnect: Type.Optional(Type.String()),
      width: Type.Optional(Size),
      height: Type.Optional(Size),
      /** A command instead of a login shell. */
      command: Type.Optional(Type.String()),
      container: Type.Optional(Type.String()),
      container_user: Type.Optional(Type.String()),
      backend_type: Type.Optional(Type.String()),
      /** Whether to skip waiting for startup scripts, even if the template requires it. */
      no_wait: Type.Optional(Type.Boolean()),
    }),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'GET /workspaceagents/{workspaceagent}/listening-ports': route({
    tag: 'Agents',
    auth: 'session',
    params: Type.Object({ workspaceagent: Type.String() }),
    responses: { 200: WorkspaceAgentListeningPortsResponse },
  }),
} as const;
