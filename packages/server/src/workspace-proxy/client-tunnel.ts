import type { IncomingMessage } from 'node:http';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { PERMIT_HEADER } from '@ropewalk/wire/proxy-link';
import { splice } from '@ropewalk/wire/splice';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import type { StreamLimits } from '../http/stream-limits.ts';
import type { AgentPaths } from './agent-paths.ts';
import type { VerificationKeys } from './verification-keys.ts';

/**
 * Carries the bytes of a client's tunnel to an agent that is connected to this proxy. The client brings the permit of a
 * server, which the agent verifies, too. Nothing crosses the server.
 * @throws AppError `unauthenticated` without a permit for this proxy, `unavailable` if the agent is not connected
 */
export async function serveClientTunnel(
  { keys, paths, streams, log }: { keys: VerificationKeys; paths: AgentPaths; streams: StreamLimits; log: Logger },
  { request, signal, accept }: { request: IncomingMessage; signal: AbortSignal; accept: () => WebSocketConnection },
): Promise<void> {
  const permit = request.headers[PERMIT_HEADER];
  const grant = typeof permit === 'string' ? await keys.readFresh(permit) : undefined;
  if (grant?.kind !== 'tunnel')
    throw new AppError('unauthenticated', 'The permit is not valid here, or it has expired.');
  const release = streams.hold('tunnel', { kind: 'person', id: grant.user });
  try {
    await paths.find(grant.agent, signal);
    const inside = await paths.open(grant.agent, permit as string, signal);
    if (!inside)
      throw new AppError('unavailable', 'The agent of the workspace is not connected here, or it rejects the permit.');
    const outside = outsideOf(accept, () => inside.destroy());
    void splice(outside, inside)
      .catch((err) => log.debug('a tunnel of a client ended', { agent_id: grant.agent, err: errorText(err) }))
      .finally(release);
  } catch (err) {
    release();
    throw err;
  }
}

function outsideOf(accept: () => WebSocketConnection, failed: () => void) {
  try {
    return byteStream(accept());
  } catch (err) {
    failed();
    throw err;
  }
}
