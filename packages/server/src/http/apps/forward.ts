import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { ForwardedRequest } from './forwarded-request.ts';
import { ForwardedUpgrade } from './forwarded-upgrade.ts';
import type { Plan } from './plan.ts';
import { AppConnections, type Dial, type Target } from './pool.ts';

export interface Forwarder {
  /** Forwards one request and its answer. Calls `done` at the end, in every case. Returns how to cut the exchange. */
  request(request: IncomingMessage, response: ServerResponse, plan: Plan, done: () => void): () => void;
  /** Forwards an upgrade. After the app's 101, bytes pass unchanged. */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    response: ServerResponse,
    plan: Plan,
    done: () => void,
  ): () => void;
  close(): void;
}

/** How long an app may take until it answers. */
const ANSWER_MS = 300_000;

export function createForwarder(
  dial: Dial,
  { answerMs = ANSWER_MS, poolOf }: { answerMs?: number; poolOf?: (target: Target) => string } = {},
): Forwarder {
  const connections = new AppConnections(dial, answerMs, poolOf);
  return {
    request(request, response, plan, done) {
      const forwarded = new ForwardedRequest(connections, request, response, plan, done);
      forwarded.begin();
      return () => forwarded.cut();
    },
    upgrade(request, socket, head, response, plan, done) {
      const forwarded = new ForwardedUpgrade({ request, socket, head, response, plan, done });
      void forwarded.begin(dial, answerMs);
      return () => forwarded.cut();
    },
    close: () => connections.close(),
  };
}
