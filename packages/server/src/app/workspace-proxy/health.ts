// Checks every minute whether this server reaches each workspace proxy, and what the proxy reports about itself. Each server
// has its own view. A proxy answers `GET /healthz-report` with `{"errors": [], "warnings": []}`, as upstream's do.
import type { ProxyHealthReport, ProxyHealthStatus, WorkspaceProxyStatus } from '@ropewalk/contract';
import { errorText } from '@ropewalk/kit';
import { allWorkspaceProxies, liveProxyReplicas, type ProxyReplicaRow } from '../../db/queries/workspace-proxies.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { boundedFetch } from '../outbound/fetch.ts';
import { isHostAddress, publicDispatcher } from '../outbound/public-address.ts';
import { appHost } from '../values/app-address.ts';
import { isNewer } from '../values/release-version.ts';
import { time } from '../values/time.ts';

const CHECK_MS = 5_000;
/** Proxies that are checked at a time. */
const LANES = 5;
/** Of a proxy's report: the number of its errors and of its warnings, and the length of each, in characters. */
const MAX_MESSAGES = 20;
const MAX_MESSAGE = 1_024;
/** Tokens for apps live for a minute. With a larger difference of the clocks, a proxy rejects new ones or accepts old ones. */
const MAX_CLOCK_DIFFERENCE_MS = 10_000;

/** Announces to pages that proxies or their health changed. */
export const PROXIES_CHANGE = { kind: 'deployment', id: 'workspace_proxies' } as const;

/** Where visitors reach a healthy proxy. */
export type ServedProxy = Pick<WorkspaceProxyRow, 'url' | 'wildcard_hostname'>;

interface Seen {
  status: ProxyHealthStatus;
  report: ProxyHealthReport;
}

/** The health of the proxies, as this server sees it. One per server. */
export class ProxyHealth {
  readonly #services: Services;
  #known = new Map<string, WorkspaceProxyStatus>();
  #served: readonly ServedProxy[] = [];
  /** What pages show of the last results. Reasons are left out, because they can differ each time. */
  #shown = '';
  #dispatcher: ReturnType<typeof publicDispatcher> | undefined;
  /** The latest check that has begun. */
  #running: Promise<void> | undefined;
  /** The one after it, which has not begun. */
  #next: Promise<void> | undefined;
  #onChecked: (seconds: number) => void = () => {};

  constructor(services: Services) {
    this.#services = services;
  }

  /** The result of the last check of a proxy. */
  statusOf({ id, url }: Pick<WorkspaceProxyRow, 'id' | 'url'>): WorkspaceProxyStatus {
    const known = this.#known.get(id);
    if (known && (known.status === 'unregistered') === (url === '')) return known;
    const errors = url === '' ? [] : ['This server has not checked the proxy yet.'];
    return {
      status: url === '' ? 'unregistered' : 'unreachable',
      report: { errors, warnings: [] },
      checked_at: time(this.#services.clock.now()),
    };
  }

  /** The last results, by the id of the proxy. */
  results(): ReadonlyMap<string, WorkspaceProxyStatus> {
    return this.#known;
  }

  /** The proxies with apps and terminals that the last check found healthy. Without a query, so that each page can ask. */
  served(): readonly ServedProxy[] {
    return this.#served;
  }

  /** Calls `listener` with the duration of each check of all proxies, in seconds. */
  onChecked(listener: (seconds: number) => void): void {
    this.#onChecked = listener;
  }

  /** Checks all proxies. Callers that come while a check runs share the next one: the present one may not see their changes. */
  checkAll(signal: AbortSignal): Promise<void> {
    this.#next ??= this.#after(this.#running, signal);
    return this.#next;
  }

  async #after(earlier: Promise<void> | undefined, signal: AbortSignal): Promise<void> {
    await earlier?.catch(() => {});
    this.#running = this.#next;
    this.#next = undefined;
    await this.#checkAll(signal);
  }

  async #checkAll(signal: AbortSignal): Promise<void> {
    const { sql, clock } = this.#services;
    const begun = clock.monotonic();
    const [proxies, replicas] = await Promise.all([allWorkspaceProxies(sql), liveProxyReplicas(sql)]);
    const found = new Map<string, WorkspaceProxyStatus>();
    const waiting = proxies.values();
    const work = async () => {
      for (const proxy of waiting) {
        const seen = await this.#check(proxy, proxies, processesOf(replicas, proxy), signal);
        found.set(proxy.id, { ...seen, checked_at: time(clock.now()) });
      }
    };
    await Promise.all(Array.from({ length: LANES }, work));
    signal.throwIfAborted();
    this.#known = found;
    const healthy = proxies.filter(({ id }) => found.get(id)?.status === 'ok');
    this.#served = healthy.filter(({ derp_only: isRelayOnly }) => !isRelayOnly);
    this.#services.proxyRelays.set(healthy.filter((proxy) => isRelay(proxy, processesOf(replicas, proxy))));
    const shown = proxies.map(({ id, url, wildcard_hostname: host }) => [id, url, host, found.get(id)?.status]).join();
    if (shown !== this.#shown) this.#services.events.publishSoon('object_changed', PROXIES_CHANGE);
    this.#shown = shown;
    this.#onChecked((clock.monotonic() - begun) / 1_000);
  }

  async #check(
    proxy: WorkspaceProxyRow,
    all: readonly WorkspaceProxyRow[],
    replicas: readonly ProxyReplicaRow[],
    signal: AbortSignal,
  ): Promise<Seen> {
    if (proxy.url === '') return { status: 'unregistered', report: { errors: [], warnings: [] } };
    const warnings = [
      ...addressWarnings(this.#services, proxy, all),
      ...replicaWarnings(this.#services, proxy, replicas),
    ];
    try {
      const sent = this.#services.clock.now().getTime();
      const answer = await this.#ask(proxy.url, signal);
      const clockWarnings = clockWarning(answer.headers.get('date'), sent, this.#services.clock.now().getTime());
      const report = await readReport(answer, proxy.url);
      return {
        status: report.errors.length > 0 ? 'unhealthy' : 'ok',
        report: { errors: report.errors, warnings: [...report.warnings, ...warnings, ...clockWarnings] },
      };
    } catch (err) {
      signal.throwIfAborted();
      const { cause } = err as Error;
      const error = `This server cannot reach ${proxy.url}: ${errorText(cause ?? err)}. Check the access URL of the proxy, its DNS and its firewall.`;
      return { status: 'unreachable', report: { errors: [error], warnings } };
    }
  }

  /** A proxy may be in a private network. Link-local addresses are those of the metadata services of clouds. */
  async #ask(url: string, signal: AbortSignal): Promise<Response> {
    this.#dispatcher ??= publicDispatcher(isHostAddress);
    return boundedFetch(
      `${url}/healthz-report`,
      { headers: { accept: 'application/json' }, signal, dispatcher: await this.#dispatcher },
      CHECK_MS,
    );
  }
}

const processesOf = (replicas: readonly ProxyReplicaRow[], { id }: WorkspaceProxyRow): ProxyReplicaRow[] =>
  replicas.filter(({ proxy_id: of }) => of === id);

/**
 * Whether clients and agents may use the relay of a healthy proxy. The relays of its processes do not forward packets to each
 * other, and a load balancer would put two nodes at different ones.
 */
const isRelay = ({ derp_enabled: isEnabled }: WorkspaceProxyRow, processes: readonly ProxyReplicaRow[]): boolean =>
  isEnabled && processes.length <= 1;

/** What a proxy answered, or why that is not the answer of a healthy proxy. */
async function readReport(answer: Response, url: string): Promise<ProxyHealthReport> {
  const wrong = (why: string): ProxyHealthReport => ({ errors: [`${url}/healthz-report ${why}`], warnings: [] });
  if (answer.status !== 200)
    return wrong(`answered with status ${answer.status}. Check that the access URL leads to the proxy.`);
  let body: unknown;
  try {
    body = await answer.json();
  } catch {
    const isServer = answer.headers.has('x-coder-build-version');
    return wrong(
      isServer
        ? 'gave no health report. The access URL leads to a server, not to a proxy.'
        : 'gave no health report. Check that the access URL leads to the proxy.',
    );
  }
  const { errors, warnings } = (body ?? {}) as Partial<Record<keyof ProxyHealthReport, unknown>>;
  return { errors: messages(errors), warnings: messages(warnings) };
}

const messages = (list: unknown): string[] =>
  (Array.isArray(list) ? list : [])
    .filter((text): text is string => typeof text === 'string')
    .slice(0, MAX_MESSAGES)
    .map((text) => text.slice(0, MAX_MESSAGE));

function addressWarnings(services: Services, proxy: WorkspaceProxyRow, all: readonly WorkspaceProxyRow[]): string[] {
  const { url, wildcard_hostname: wildcard } = proxy;
  const found: string[] = [];
  if (url === new URL(services.accessUrl).origin)
    found.push(`Its access URL ${url} is that of the server. Give the proxy its own --access-url.`);
  if (url.startsWith('http:') && services.accessUrl.startsWith('https:'))
    found.push(`Its access URL ${url} uses http, so pages of the server cannot open terminals there. Use https.`);
  if (wildcard === '') return found;
  const also = all.find((other) => other.id !== proxy.id && other.wildcard_hostname === wildcard);
  if (wildcard === appHost(services).toLowerCase())
    found.push(`Its wildcard host ${wildcard} is that of the server. Give the proxy its own --wildcard-access-url.`);
  else if (also)
    found.push(`Its wildcard host ${wildcard} is that of the proxy "${also.name}", too. Give each proxy its own.`);
  return found;
}

function replicaWarnings(
  { version: ours }: Services,
  proxy: WorkspaceProxyRow,
  replicas: readonly ProxyReplicaRow[],
): string[] {
  const found: string[] = [];
  if (replicas.length === 0)
    found.push(
      'No process of the proxy has registered in the last 75 seconds and is connected. Check that it runs and reaches the server.',
    );
  if (proxy.derp_enabled && !isRelay(proxy, replicas))
    found.push(
      `It has ${replicas.length} processes, whose relays do not forward packets to each other, so it is not in the DERP map. ` +
        'Run one process, or set CODER_DERP_SERVER_ENABLE=false for all of them.',
    );
  const versions = replicas.length > 0 ? replicas.map(({ version }) => version) : [proxy.version];
  for (const version of new Set(versions)) {
    if (version === ours || version === '') continue;
    if (isNewer(ours, version))
      found.push(`Its version ${version} is older than the server's version ${ours}. Update the proxy.`);
    else if (isNewer(version, ours))
      found.push(`Its version ${version} is newer than the server's version ${ours}. Update the server first.`);
    else found.push(`Its version ${version} differs from the server's version ${ours}.`);
  }
  for (const { hostname, problem } of replicas)
    if (problem !== '') found.push(`The process on "${hostname}" reports: ${problem}`);
  return found;
}

/** @param date the answer's header, in seconds */
function clockWarning(date: string | null, sent: number, received: number): string[] {
  const at = Date.parse(date ?? '');
  if (Number.isNaN(at)) return [];
  const difference = at < sent ? sent - at : Math.max(0, at - received);
  if (difference <= MAX_CLOCK_DIFFERENCE_MS) return [];
  const seconds = Math.round(difference / 1_000);
  return [
    `Its clock is ${seconds} seconds ${at < sent ? 'behind' : 'ahead of'} the server's. Synchronize the clocks, or the proxy rejects visitors.`,
  ];
}
