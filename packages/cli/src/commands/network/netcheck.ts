import type { Client } from '@ropewalk/client';
import { errorText } from '@ropewalk/kit/errors';
import { describeInterfaces } from '@ropewalk/kit/network-interfaces';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';

const SAMPLES = 3;
const TIMEOUT_MS = 10_000;

/**
 * Reports as JSON whether HTTP and WebSocket connections to the server work. `derp` and `interfaces` have the form of
 * upstream's report, which editors read. The tunnels of commands need no relays and no direct connections, so `derp` has no region.
 * `relays` are those of the tailnet, for upstream's clients and agents. `regions` are the servers and the workspace proxies, as this machine reaches them. A proxy that does not answer is a warning: the
 * server carries the bytes then.
 */
export default command({}, async (ctx) => {
  const client = await ctx.client();
  const { nodeFetchWith } = await import('@ropewalk/client/node-fetch');
  const fetch = nodeFetchWith(client.tls);
  const latencies: number[] = [];
  let http: string | null = null;
  for (let i = 0; i < SAMPLES; i++) {
    const from = performance.now();
    try {
      const signal = AbortSignal.any([ctx.signal, AbortSignal.timeout(TIMEOUT_MS)]);
      await (await fetch(`${client.url}/latency-check`, { method: 'GET', headers: client.headers, signal })).text();
      latencies.push(performance.now() - from);
    } catch (err) {
      http = errorText(err);
    }
  }
  ctx.signal.throwIfAborted();
  const websocket = await tryWebSocket(client, ctx.signal);
  const warnings = [
    ...(http ? [`The server did not answer: ${http}`] : []),
    ...(websocket.error ? [`WebSocket connections fail: ${websocket.error}. Check whether a proxy blocks them.`] : []),
  ];
  const failed = warnings.length > 0;
  const { measureRelays } = await import('@ropewalk/client/paths/relays');
  const [regions, relays] = [await regionReports(client, ctx.signal), await measureRelays(client, ctx.signal)];
  for (const { name, error } of regions)
    if (error !== null) warnings.push(`The workspace proxy "${name}" cannot be used: ${error}`);
  for (const { name, error } of Object.values(relays))
    if (error !== null) warnings.push(`The relay "${name}" does not answer: ${error}`);
  const report = {
    severity: failed ? 'error' : warnings.length > 0 ? 'warning' : 'ok',
    healthy: !failed,
    warnings,
    server: {
      url: client.url,
      version: await client.call('GET /buildinfo').then(
        ({ version }) => version,
        () => null,
      ),
      latency_ms: latencies.length > 0 ? Math.min(...latencies) : null,
    },
    websocket,
    regions,
    direct_connections: false,
    relays,
    derp: {
      severity: 'ok',
      warnings: [],
      dismissed: false,
      healthy: true,
      regions: {},
      netcheck_logs: [],
    },
    interfaces: {
      severity: 'ok',
      warnings: [],
      dismissed: false,
      interfaces: describeInterfaces(),
    },
  };
  print(ctx.io, JSON.stringify(report, null, 2));
  return failed ? 1 : 0;
});

interface RegionReport {
  name: string;
  display_name: string;
  url: string;
  /** As the server sees it. */
  healthy: boolean;
  /** The shortest round trip, in ms. */
  latency_ms: number | null;
  /** Whether commands may use it: see --connection-region. */
  usable: boolean;
  error: string | null;
}

/** Every region of the server. Empty if the server does not show them, because nobody is logged in or it does not answer. */
async function regionReports(client: Client, signal: AbortSignal): Promise<RegionReport[]> {
  const { mayUse, measureRegions, PRIMARY } = await import('@ropewalk/client/paths/regions');
  const known = await client.call('GET /regions').then(
    ({ regions }) => regions,
    () => [],
  );
  const measured = await measureRegions(client, known, signal);
  signal.throwIfAborted();
  return measured.map(({ region, ms, error }) => {
    const { name, display_name, path_app_url: url, healthy } = region;
    const isOfServer = name === PRIMARY;
    const why = error ?? (healthy ? null : 'the server reports that it is not healthy. See: coder wsproxy ls');
    return {
      ...{ name, display_name, url, healthy, latency_ms: ms ?? null },
      usable: isOfServer || (why === null && mayUse(client, region)),
      error: isOfServer ? null : why,
    };
  });
}

async function tryWebSocket(
  { url, tls }: Client,
  signal: AbortSignal,
): Promise<{ works: boolean; error: string | null }> {
  const { tryUpgrade } = await import('@ropewalk/client/tunnel-streams');
  try {
    await tryUpgrade(`${url}/healthz`, { ...tls, signal, timeoutMs: TIMEOUT_MS });
    return { works: true, error: null };
  } catch (err) {
    return { works: false, error: errorText(err) };
  }
}
