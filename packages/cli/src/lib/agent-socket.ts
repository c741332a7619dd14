import { connect } from 'node:net';
import { AppError } from '@platform/kit/errors';
import { createDrpcClient, type DrpcClient, DrpcError } from '@platform/wire/drpc';
import { AgentSocket } from '@platform/wire/proto/agentsocket';
import type { FlagDefs } from '../framework/definition.ts';

const DEFAULT_PATH = process.platform === 'win32' ? '\\\\.\\pipe\\com.coder.agentsocket' : '/tmp/coder-agent.sock';
const CALL_MS = 10_000;

export const socketFlags = {
  'socket-path': {
    type: 'string',
    env: 'CODER_AGENT_SOCKET_PATH',
    default: DEFAULT_PATH,
    description: 'Path of the local socket of the workspace agent.',
  },
} as const satisfies FlagDefs;

/**
 * Calls the agent of this workspace over its local socket.
 * @throws AppError `unavailable` if no agent listens there, `conflict` with the agent's message if it rejects the call
 */
export async function callAgent<T>(
  path: string,
  call: (agent: DrpcClient<typeof AgentSocket>) => Promise<T>,
): Promise<T> {
  const agent = createDrpcClient(
    AgentSocket,
    () =>
      new Promise((resolve, reject) => {
        const socket = connect(path, () => resolve(socket)).once('error', reject);
      }),
    { timeoutMs: CALL_MS },
  );
  try {
    return await call(agent);
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
