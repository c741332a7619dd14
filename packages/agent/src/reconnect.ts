import { AppError, backoff, errorText, RECONNECT, systemClock } from '@ropewalk/kit';
import { WebSocketClosedError, WebSocketDialError } from '@ropewalk/wire/websocket';
import type { YamuxClose } from '@ropewalk/wire/yamux';
import type { AgentOptions } from './options.ts';

/** The first wait after the server rejects the token. The build may be outdated for good, or its job not done yet. */
const REFUSED_BASE_MS = 1_000;
const REFUSED_CAP_MS = 30_000;
/** The server's close code for a connection that a newer one with the same token replaces. */
const SUPERSEDED = 4409;
/**
 * The waits while the agent moves: the load balancer may choose the server that asked for it, which answers 503, until it
 * notices that this server is not ready. The agent still has its connection, so only the log and reports wait.
 */
const MOVING = { baseMs: 100, capMs: 300, factor: 1.3, jitter: 1 };
const MOVING_MS = 10_000;
/** A connection of this age counts as a success, so that the next attempt follows soon. */
const SETTLED_MS = 10_000;

/** How a connection ended. `moved`: the server has asked for a connection to another server. */
export type Disconnected = YamuxClose | 'moved';

/**
 * Connects again and again until the signal aborts, with growing waits. `connect` resolves when its connection has ended
 * or is to be replaced, and rejects if it could not connect. Never rejects.
 */
export async function reconnect(
  options: AgentOptions,
  connect: () => Promise<Disconnected>,
  signal: AbortSignal,
): Promise<void> {
  const { log } = options;
  const waits = backoff({ baseMs: 100, factor: 1.62, ...RECONNECT, ...capOf(options) });
  const refused = backoff({ baseMs: REFUSED_BASE_MS, capMs: REFUSED_CAP_MS, ...capOf(options) });
  let moving: { until: number; waits: ReturnType<typeof backoff> } | undefined;
  while (!signal.aborted) {
    const from = performance.now();
    let wait: number;
    try {
      const ended = await connect();
      moving = undefined;
      const error = ended === 'moved' ? undefined : ended.error;
      if (ended === 'moved') {
        moving = { until: performance.now() + MOVING_MS, waits: backoff(MOVING) };
        waits.reset();
        wait = moving.waits.next();
      } else if (error instanceof WebSocketClosedError && error.code === SUPERSEDED) {
        // Two agents that keep replacing each other would leave users without a session.
        wait = refused.next();
        log.warn('another agent with this token took over', { retry_ms: Math.round(wait) });
      } else {
        if (performance.now() - from > SETTLED_MS) waits.reset();
        refused.reset();
        wait = waits.next();
      }
    } catch (err) {
      if (signal.aborted) return;
      const isMoving = moving !== undefined && performance.now() < moving.until;
      wait = isRefused(err) ? refused.next() : isMoving ? moving!.waits.next() : waits.next();
      log[isMoving ? 'debug' : 'warn']('could not connect', {
        err: errorText(err),
        answer: serverMessage(err),
        retry_ms: Math.round(wait),
      });
    }
    // An end cuts the wait short, and the loop checks for it.
    await systemClock.sleep(wait, signal).catch(() => {});
  }
}

const capOf = ({ reconnectCapMs: capMs }: AgentOptions) => (capMs === undefined ? {} : { capMs });

/** Whether the server rejected the token, or the proof of the machine's identity. */
function isRefused(err: unknown): boolean {
  const status = err instanceof WebSocketDialError ? err.status : undefined;
  const unproven = err instanceof AppError && err.code === 'unauthenticated';
  return unproven || status === 401 || status === 403;
}

function serverMessage(err: unknown): string | undefined {
  if (!(err instanceof WebSocketDialError) || err.body === '') return undefined;
  try {
    const { message } = JSON.parse(err.body) as { message?: unknown };
    return typeof message === 'string' ? message.slice(0, 500) : undefined;
  } catch {
    return undefined;
  }
}
