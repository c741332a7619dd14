import { Type } from 'typebox';
import { WorkspaceAgentListeningPortsResponse } from '../schema/workspaces.ts';
import { Nothing, route } from './kit.ts';

/** In characters, as much as a terminal's own numbers hold. */
const Size = Type.Integer({ minimum: 0, maximum: 65_535 });

export const terminalRoutes = {
  'GET /workspaceagents/{workspaceagent}/pty': route({
    tag: 'Agents',
    auth: 'session',
    summary: 'A terminal in the workspace. Who comes again with the same `reconnect` finds it as it was left.',
    params: Type.Object({ workspaceagent: Type.String() }),
    query: Type.Object({
      /** A UUID of the caller's choice. */
      reconnect: Type.Optional(Type.String()),
      width: Type.Optional(Size),
      height: Type.Optional(Size),
      /** Instead of a login shell. */
      command: Type.Optional(Type.String()),
      container: Type.Optional(Type.String()),
      container_user: Type.Optional(Type.String()),
      backend_type: Type.Optional(Type.String()),
      /** Does not wait for startup scripts, even where the template says so. */
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
