import type { Services } from '../app/context/context.ts';
import { parseAddress } from '../config/listen.ts';
import type { RunningMetrics } from '../metrics/start.ts';
import { createProfiler, type Profiler } from '../profiles/record.ts';
import type { Tracing } from '../tracing/start.ts';
import type { Starting } from './starting.ts';

// The modules of each part are loaded only if it is enabled.

/** Starts traces, if they are enabled. From here on lines of the log can be events of traces. */
export async function startTraces(start: Starting): Promise<Tracing | undefined> {
  const { config, env, closer } = start;
  if (!config.trace && config.traceHoneycombApiKey === '') return undefined;
  const { startTracing } = await import('../tracing/start.ts');
  const tracing = await startTracing(config, env, start.log);
  start.log = tracing.log;
  closer.add('traces', tracing.close);
  return tracing;
}

export function traceJobs({ closer }: Starting, tracing: Tracing, services: Services): void {
  const unfollow = tracing.follow(services);
  closer.add('traces of jobs', async () => unfollow());
}

export async function startMetrics(
  { config, closer }: Starting,
  services: Services,
): Promise<RunningMetrics | undefined> {
  if (!config.prometheusEnable) return undefined;
  const { startMetrics: start } = await import('../metrics/start.ts');
  const metrics = await start(services, parseAddress(config.prometheusAddress));
  closer.add('metrics', () => metrics.close());
  return metrics;
}

/** The profiler, and where its profiles are served, if they are. */
export async function startProfiles({ config, log, closer }: Starting): Promise<{ profiler: Profiler; url?: string }> {
  const profiler = createProfiler();
  closer.add('profiler', async () => profiler.close());
  if (!config.pprofEnable) return { profiler };
  const { serveProfiles } = await import('../profiles/serve.ts');
  const { url, close } = await serveProfiles(profiler, parseAddress(config.pprofAddress), log);
  closer.add('profiles', close);
  return { profiler, url };
}
