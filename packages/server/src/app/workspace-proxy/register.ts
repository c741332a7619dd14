import type {
  DeregisterWorkspaceProxyRequest,
  RegisterWorkspaceProxyRequest,
  RegisterWorkspaceProxyResponse,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { VerifiedProxy } from '../../authz/proofs.ts';
import {
  keepProxyReplica,
  liveProxyReplicas,
  loseProxyReplica,
  registerWorkspaceProxy,
  stopProxyReplica,
} from '../../db/queries/workspace-proxies.ts';
import type { Ctx, Services } from '../context/context.ts';
import { derpMap, proxyRegionId } from '../tailnet/derp-map.ts';
import { parseWildcard } from '../values/app-address.ts';
import { NIL_UUID } from '../values/ids.ts';
import { time } from '../values/time.ts';
import { proxyOf } from './credential.ts';

/** Maximum number of processes of one proxy. */
const MAX_REPLICAS = 64;
/** The longest text of a process's problem that is kept, in characters. */
const MAX_PROBLEM = 1_024;

const invalid = (message: string, field: string, detail: string) =>
  new AppError('invalid', message, { detail, validations: [{ field, detail }] });

/** The origin of a proxy's access URL. */
function checkedUrl(text: string): string {
  const wrong = (detail: string) => invalid('URL is invalid.', 'access_url', detail);
  if (!URL.canParse(text)) throw wrong('must be a URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw wrong('must start with http:// or https://');
  if (url.username !== '' || url.password !== '') throw wrong('must not contain a user name or password');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') throw wrong('must have no path, query or fragment');
  return url.origin;
}

/** A proxy's wildcard host name, in lower case. */
function checkedWildcard(text: string): string {
  if (text === '') return '';
  const wildcard = parseWildcard(text);
  if (!wildcard || wildcard.scheme !== undefined)
    throw invalid('Wildcard URL is invalid.', 'wildcard_hostname', 'must be a pattern like *.eu.example.com');
  return `${wildcard.before}*${wildcard.after}${wildcard.port}`;
}

/**
 * Registers a process of the proxy. Processes of one proxy have the same URL, so the newest registration counts. Any
 * version may register, because an older proxy must survive an upgrade of the servers. Its health names the difference.
 */
export async function registerProxy(
  ctx: Ctx,
  input: RegisterWorkspaceProxyRequest,
): Promise<RegisterWorkspaceProxyResponse> {
  const proxy = proxyOf(ctx);
  const { replica_id: id, derp_enabled, derp_only, version = '' } = input;
  const url = checkedUrl(input.access_url);
  const wildcard_hostname = checkedWildcard(input.wildcard_hostname ?? '');
  if (id === NIL_UUID) throw invalid('Replica ID is invalid.', 'replica_id', 'must not be zero');
  if (derp_only && !derp_enabled)
    throw invalid('derp_only requires derp_enabled.', 'derp_only', 'must be false while derp_enabled is false');
  const replica = {
    id,
    hostname: input.hostname ?? '',
    relay_address: input.replica_relay_address ?? '',
    version,
    problem: (input.replica_error ?? '').slice(0, MAX_PROBLEM),
  };
  await ctx.sql.begin(async (tx) => {
    const given = { url, wildcard_hostname, derp_enabled, derp_only, version };
    const isChanged = await registerWorkspaceProxy(tx, proxy, given);
    if (isChanged === undefined) throw new AppError('unauthenticated', 'The workspace proxy was deleted.');
    const kept = await keepProxyReplica(tx, proxy, replica, MAX_REPLICAS);
    if (kept === 'stopped')
      throw new AppError('invalid', 'This process has deregistered. Start another one, which has another replica_id.');
    if (kept === 'full')
      throw new AppError('conflict', `The workspace proxy has ${MAX_REPLICAS} processes. Try again later.`, {
        detail: 'Processes that ended without deregistering count for an hour.',
      });
    if (isChanged || kept === 'added') await ctx.events.publish(tx, 'workspace_proxies_changed', {});
  });
  const region = proxyRegionId(ctx, proxy);
  const all = await liveProxyReplicas(ctx.sql, proxy.id);
  return {
    // relays share no secret: the link of a proxy names the nodes that may exchange packets (decision 0083)
    derp_mesh_key: '',
    derp_region_id: region,
    derp_map: derpMap(ctx),
    derp_force_websockets: ctx.config.derpForceWebsockets,
    sibling_replicas: all
      .filter((one) => one.id !== id)
      .map((one) => ({
        id: one.id,
        hostname: one.hostname,
        created_at: time(one.started_at),
        relay_address: one.relay_address,
        region_id: region,
        error: one.problem,
        database_latency: 0,
      })),
  };
}

/** @throws AppError `not_found` if the proxy has no such process, or it has ended before */
export async function deregisterProxy(
  ctx: Ctx,
  { replica_id: id }: DeregisterWorkspaceProxyRequest,
): Promise<undefined> {
  if (!(await stopProxyReplica(ctx.sql, proxyOf(ctx), id)))
    throw new AppError('not_found', 'The workspace proxy has no such process.');
  await ctx.events.publish(ctx.sql, 'workspace_proxies_changed', {});
}

/** How long a process may take to connect and register again before it counts as gone, in ms. */
const RETURN_MS = 5_000;

/**
 * Records that a process is gone, if it does not register again soon after its connection to a server ended. Otherwise a
 * killed process counts for 75 seconds, and its relay stays out of the map for as long after another one replaced it.
 * @param silentMs for how long the connection was silent before it ended
 */
export async function missProcess(
  { sql, clock, events }: Pick<Services, 'sql' | 'clock' | 'events'>,
  proxy: VerifiedProxy,
  { id, silentMs }: { id: string; silentMs: number },
  signal: AbortSignal,
): Promise<void> {
  const ended = clock.monotonic() - silentMs;
  await clock.sleep(RETURN_MS, signal);
  if (await loseProxyReplica(sql, proxy, { id, silentMs: clock.monotonic() - ended }))
    await events.publish(sql, 'workspace_proxies_changed', {});
}
