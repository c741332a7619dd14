import type { Duplex } from 'node:stream';
import { errorText } from '@ropewalk/kit';
import { WATCH_AGAIN_MS } from '../../app/agent/metadata.ts';
import type { AgentReports } from '../../app/agent/reports.ts';
import type { Services } from '../../app/context/context.ts';

/** A watcher repeats its event. After two missing events nobody watches. */
const FORGET_MS = 2.5 * WATCH_AGAIN_MS;

export interface WatchOptions {
  reports: AgentReports;
  connected(agentId: string): boolean;
  /** Opens a stream to the agent's service `watch`. Throws if the agent has no such service. */
  open(agentId: string): Promise<Duplex>;
}

interface Watched {
  until: number;
  stream?: Duplex | undefined;
  opening: boolean;
}

/**
 * Opens a stream to each agent of this server whose metadata somebody watches, at this or another server. The stream
 * stays open for as long. Agents without that service report at their own pace.
 */
export function startWatching(services: Services, { reports, connected, open }: WatchOptions): { close(): void } {
  const { events, log } = services;
  const watched = new Map<string, Watched>();

  function forget(agentId: string): void {
    watched.get(agentId)?.stream?.destroy();
    watched.delete(agentId);
    reports.watched(agentId, false);
  }

  async function openWatch(agentId: string, entry: Watched): Promise<void> {
    entry.opening = true;
    try {
      const stream = await open(agentId);
      stream.on('error', () => {});
      stream.resume();
      stream.once('close', () => {
        if (entry.stream === stream) entry.stream = undefined;
      });
      entry.stream = stream;
      if (watched.get(agentId) !== entry) stream.destroy();
    } catch (err) {
      log.debug('could not open the watch stream of an agent', { agent_id: agentId, err: errorText(err) });
    } finally {
      entry.opening = false;
    }
  }

  const off = events.on('agent_watched', ({ agent_id: agentId }) => {
    if (!connected(agentId)) return;
    const entry = watched.get(agentId) ?? { until: 0, opening: false };
    entry.until = performance.now() + FORGET_MS;
    if (!watched.has(agentId)) {
      watched.set(agentId, entry);
      reports.watched(agentId, true);
    }
    if (!entry.stream && !entry.opening) void openWatch(agentId, entry);
  });
  const timer = setInterval(() => {
    const now = performance.now();
    for (const [agentId, { until }] of watched) if (until < now || !connected(agentId)) forget(agentId);
  }, WATCH_AGAIN_MS / 2);
  timer.unref();
  return {
    close() {
      clearInterval(timer);
      off();
      for (const agentId of [...watched.keys()]) forget(agentId);
    },
  };
}
