// Checks each relay of the DERP map as a client does: a throw-away key sends itself a packet over it. Two keys, as upstream's
// command uses, would also test the streams between servers, which the health page reports separately.
import type { Duplex } from 'node:stream';
import type { DERPHealthReport, HealthMessage, TailnetDERPNode, TailnetDERPRegion } from '@ropewalk/contract';
import { errorText } from '@ropewalk/kit';
import type { Services } from '../context/context.ts';
import { derpMap, hasRelay } from '../tailnet/derp-map.ts';

const CHECK_MS = 5_000;

type NodeReport = DERPHealthReport['regions'][string]['node_reports'][number];

/** The section `derp` of the health report. STUN servers are not checked. */
export async function checkRelays(services: Services): Promise<DERPHealthReport> {
  const map = derpMap(services);
  const checked = await Promise.all(
    Object.entries(map.Regions)
      .filter(([, { Nodes }]) => Nodes.some(({ STUNOnly }) => !STUNOnly))
      .map(async ([id, region]) => [id, await checkRegion(region)] as const),
  );
  const warnings: HealthMessage[] = [];
  const warn = (message: string) => warnings.push({ code: 'EUNKNOWN', message });
  if (!hasRelay(map))
    warn("The DERP map has no relay, so upstream's clients and agents cannot connect. Set --derp-server-enable.");
  const healthy = checked.every(([, region]) => region.healthy);
  return {
    dismissed: false,
    error: null,
    healthy,
    netcheck: null,
    netcheck_err: null,
    netcheck_logs: [],
    regions: Object.fromEntries(checked),
    severity: healthy ? (warnings.length > 0 ? 'warning' : 'ok') : 'error',
    warnings,
  };
}

async function checkRegion(region: TailnetDERPRegion): Promise<DERPHealthReport['regions'][string]> {
  const nodes = region.Nodes.filter(({ STUNOnly }) => !STUNOnly);
  const reports = await Promise.all(nodes.map(checkNode));
  const healthy = reports.some((report) => report.healthy);
  return {
    error: healthy ? '' : reports.map(({ error }) => error).join('; '),
    healthy,
    node_reports: reports,
    region,
    severity: healthy ? 'ok' : 'error',
    warnings: [],
  };
}

async function checkNode(node: TailnetDERPNode): Promise<NodeReport> {
  let error = '';
  let ms = 0;
  try {
    ms = await exchangePacket(node);
  } catch (err) {
    error = errorText(err);
  }
  const healthy = error === '';
  return {
    can_exchange_messages: healthy,
    client_errs: healthy ? [] : [[error]],
    client_logs: [],
    error,
    healthy,
    node,
    node_info: { tokenBucketBytesBurst: 0, tokenBucketBytesPerSecond: 0 },
    round_trip_ping: `${ms.toFixed(3)}ms`,
    round_trip_ping_ms: Math.round(ms),
    severity: healthy ? 'ok' : 'error',
    stun: { CanSTUN: false, Enabled: false, Error: null },
    uses_websocket: true,
    warnings: [],
  };
}

/** The round trip of a relay, in ms, after a packet went through it. */
async function exchangePacket({
  HostName: hostName,
  DERPPort: derpPort,
  ForceHTTP: forceHttp,
}: TailnetDERPNode): Promise<number> {
  // loaded for those who look at the health
  const [{ DerpClient }, { dialRelay }, { relayUrl }, { KeyPair }] = await Promise.all([
    import('@ropewalk/tailnet/derp/client'),
    import('@ropewalk/tailnet/derp/dial'),
    import('@ropewalk/tailnet/derp/map'),
    import('@ropewalk/tailnet/keys'),
  ]);
  const signal = AbortSignal.timeout(CHECK_MS);
  let stream: Duplex | undefined;
  try {
    const keys = KeyPair.generate();
    const arrived = Promise.withResolvers<void>();
    const late = () => arrived.reject(new Error(`no packet arrived within ${CHECK_MS / 1_000} s`));
    signal.addEventListener('abort', late, { once: true });
    arrived.promise.catch(() => {});
    stream = await dialRelay(relayUrl({ hostName, derpPort, forceHttp }), { websocket: true, signal });
    const client = new DerpClient(stream, { keys, isProber: true, onPacket: () => arrived.resolve() });
    await Promise.race([client.ready, arrived.promise]);
    client.send(keys.publicKey, Buffer.from('health check'));
    await arrived.promise;
    return await client.ping();
  } finally {
    stream?.on('error', () => {}).destroy();
  }
}
