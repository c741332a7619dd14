import { AGENT_SOCKET_PATH, type AgentSocketClient, agentSocketClient, DrpcError } from '@ropewalk/client/agent-socket';
import { AppError } from '@ropewalk/kit/errors';
import type { FlagDefs } from '../framework/types.ts';

export const socketFlags = {
  'socket-path': {
    type: 'string',
    env: 'CODER_AGENT_SOCKET_PATH',
    default: AGENT_SOCKET_PATH,
    description: 'Path of the local socket of the workspace agent.',
  },
} as const satisfies FlagDefs;

/**
 * Calls the agent of this workspace over its local socket.
 * @throws AppError `unavailable` if no agent listens there, `conflict` with the agent's message if it rejects the call
 */
export async function callAgent<T>(path: string, call: (agent: AgentSocketClient) => Promise<T>): Promise<T> {
  try {
    return await call(agentSocketClient(path));
  } catch (err) {
    if (err instanceof DrpcError) throw new AppError('conflict', err.message);
    const { code } = err as NodeJS.ErrnoException;
    if (code === undefined) throw err;
    throw new AppError('unavailable', `Cannot reach the workspace agent at ${path} (${code}).`, {
      detail: 'Run this command inside a workspace, as the user of its agent, or give the path with --socket-path.',
      cause: err,
    });
  }
}
