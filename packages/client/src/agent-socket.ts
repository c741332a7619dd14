import { connect } from 'node:net';
import { createDrpcClient, type DrpcClient } from '@ropewalk/wire/drpc';
import { AgentSocket } from '@ropewalk/wire/proto/agentsocket';

export { AGENT_SOCKET_PATH } from '@ropewalk/wire/agent-socket-path';
export { DrpcError } from '@ropewalk/wire/drpc';

export type AgentSocketClient = DrpcClient<typeof AgentSocket>;

const CALL_MS = 10_000;

/**
 * The calls of the agent that listens at a local socket. Each opens a connection. They reject with the socket's error, or
 * with DrpcError if the agent rejects the call or does not answer within 10 seconds.
 */
export function agentSocketClient(path: string): AgentSocketClient {
  const open = () =>
    new Promise<ReturnType<typeof connect>>((resolve, reject) => {
      const socket = connect(path, () => resolve(socket)).once('error', reject);
    });
  return createDrpcClient(AgentSocket, open, { timeoutMs: CALL_MS });
}
