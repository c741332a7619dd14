import type { Client } from '@ropewalk/client';
import { errorText } from '@ropewalk/kit/errors';
import { describeInterfaces } from '@ropewalk/kit/network-interfaces';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';

const SAMPLES = 3;
const TIMEOUT_MS = 10_000;

/**
 * Reports as JSON whether HTTP and WebSocket connections to the server work. `derp` and `interfaces` have the form of
 * upstream's report, which editors read. There are no relays and no direct connections, so that `derp` has no region.
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
  const report = {
    severity: warnings.length > 0 ? 'error' : 'ok',
    healthy: warnings.length === 0,
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
    direct_connections: false,
    relays: {},
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
  return warnings.length > 0 ? 1 : 0;
});

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
