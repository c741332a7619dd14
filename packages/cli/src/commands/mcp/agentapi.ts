// The events of AgentAPI (https://github.com/coder/agentapi), a program that runs a coding agent in a terminal.
import { setTimeout as delay } from 'node:timers/promises';
import type { Observation } from './reporter.ts';

const MIN_WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;
/** The size of one event, in characters. */
const MAX_EVENT = 1024 * 1024;

/** Calls back with the observations of the AgentAPI at this address, until the signal is aborted. Connects again after a loss. */
export async function watchAgentApi(
  url: string,
  {
    onObservation,
    onLost,
    signal,
  }: {
    onObservation(observation: Observation): void;
    onLost(reason: string): void;
    signal: AbortSignal;
  },
): Promise<void> {
  let waitMs = MIN_WAIT_MS;
  while (!signal.aborted) {
    try {
      const answer = await fetch(`${url.replace(/\/+$/, '')}/events`, {
        signal,
        headers: { accept: 'text/event-stream' },
      });
      if (!answer.ok || !answer.body) throw new Error(`it answers with ${answer.status}`);
      waitMs = MIN_WAIT_MS;
      for await (const event of eventsOf(answer.body)) {
        const observation = observationOf(event.name, event.data);
        if (observation) onObservation(observation);
      }
    } catch (err) {
      if (!signal.aborted) onLost((err as Error).message);
    }
    await delay(waitMs, undefined, { signal }).catch(() => {});
    waitMs = Math.min(waitMs * 2, MAX_WAIT_MS);
  }
}

interface ServerEvent {
  name: string;
  data: string;
}

async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const part of body) {
    rest += decoder.decode(part, { stream: true }).replaceAll('\r', '');
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const lines = rest.slice(0, end).split('\n');
      rest = rest.slice(end + 2);
      const field = (name: string) =>
        lines.flatMap((line) => (line.startsWith(`${name}:`) ? [line.slice(name.length + 1).replace(/^ /, '')] : []));
      yield { name: field('event')[0] ?? '', data: field('data').join('\n') };
    }
    if (rest.length > MAX_EVENT) throw new Error('it sends an event that is too large');
  }
}

function observationOf(name: string, data: string): Observation | undefined {
  let value: { status?: unknown; role?: unknown; id?: unknown };
  try {
    value = JSON.parse(data) as typeof value;
  } catch {
    return undefined;
  }
  if (name === 'status_change') return { state: value.status === 'stable' ? 'idle' : 'working' };
  if (name === 'message_update' && value.role === 'user' && typeof value.id === 'number') return { message: value.id };
  return undefined;
}
