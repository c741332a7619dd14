import type { Server } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import { AppError } from '@ropewalk/kit';
import type { FastifyInstance } from 'fastify';
import { createSigner } from '../app/agent/signing-key.ts';
import type { Services } from '../app/context/context.ts';
import type { Flows } from '../app/sign-in/flow.ts';
import { appOrigins } from '../app/values/app-address.ts';
import { type AppGrants, createAppGrants } from '../app/workspace-app/grants.ts';
import type { ProxyHealth } from '../app/workspace-proxy/health.ts';
import { ProxyRights } from '../app/workspace-proxy/rights.ts';
import { type Address, hostText, listen, parseAddress } from '../config/listen.ts';
import { apiPage } from '../http/api-page.ts';
import { createAppPlace } from '../http/apps/place.ts';
import { type AppProxy, createAppProxy } from '../http/apps/proxy.ts';
import { ServerDoor } from '../http/apps/server-door.ts';
import { type ClientAddress, createClientAddress } from '../http/client-address.ts';
import { createDashboard, type Dashboard } from '../http/dashboard/build.ts';
import { type CspReports, createCspReports } from '../http/dashboard/csp-reports.ts';
import { dashboardRoutes } from '../http/dashboard/routes.ts';
import type { DatabaseStall } from '../http/database-stall.ts';
import { relayRoutes } from '../http/derp.ts';
import { toAppError } from '../http/errors.ts';
import { binaryRoutes, describeExecutables } from '../http/executables/binaries.ts';
import { installRoutes } from '../http/executables/install.ts';
import { externalAuthRoutes } from '../http/external-auth.ts';
import { InsideRequests } from '../http/inside.ts';
import { consentRoutes } from '../http/oauth2/consent.ts';
import { protocolRoutes } from '../http/oauth2/protocol.ts';
import { plainRoutes } from '../http/plain.ts';
import { ProxyLinks } from '../http/proxy-link.ts';
import type { RateLimit } from '../http/rate-limit.ts';
import { replicaRoutes } from '../http/replicas.ts';
import { terminalPass } from '../http/routes/terminal.ts';
import { scimRoutes } from '../http/scim.ts';
import { createHttp } from '../http/server.ts';
import { rejectedCookieFlags } from '../http/session-cookie.ts';
import { createStreamLimits, type StreamLimits } from '../http/stream-limits.ts';
import { TunnelPaths } from '../http/tunnel-paths.ts';
import { Unanswered } from '../http/unanswered.ts';
import type { RunningMetrics } from '../metrics/start.ts';
import type { Profiler } from '../profiles/record.ts';
import type { Tracing } from '../tracing/start.ts';
import type { Connections } from './connections.ts';
import { type Database, startStallWatch } from './database.ts';
import { createHandlers } from './handlers.ts';
import type { Installation } from './services.ts';
import { type SignIn, startSignIn } from './sign-in.ts';
import type { LateParts, Starting } from './starting.ts';

/** Presents the client certificate of the options to every server that this one connects to. */
export async function presentClientCertificate({ config, closer }: Starting): Promise<void> {
  if (config.tlsClientCertFile === '' && config.tlsClientKeyFile === '') return;
  // loaded for those who configured it
  const { presentCertificate } = await import('../http/client-certificate.ts');
  closer.add('client certificate', presentCertificate(config));
}

/** What the HTTP server is made of. */
export interface HttpParts {
  services: Services;
  database: Database;
  installation: Installation;
  connections: Connections;
  tracing: Tracing | undefined;
  metrics: RunningMetrics | undefined;
  profiler: Profiler;
  late: LateParts;
  proxyHealth: ProxyHealth;
}

export interface RunningHttp {
  server: Server;
  /** Where it listens, without a trailing slash. */
  url: string;
  /** The address on which it listens. */
  address: Address;
  /** Where a process of this machine reaches it, without a trailing slash. */
  localUrl: string;
  providers: SignIn['providers'];
  unanswered: Unanswered;
}

/** How long requests may take that the server has when it ends, in ms. */
const LAST_ANSWERS_MS = 5_000;

/** Starts the API, the dashboard and the proxy of workspace apps, and listens. */
export async function startHttp(start: Starting, parts: HttpParts): Promise<RunningHttp> {
  const { config, log, clock, closer } = start;
  const { services, installation, connections, metrics, profiler, late } = parts;
  const { tokens } = installation;
  const address = parseAddress(config.httpAddress);
  services.accessUrl = (config.accessUrl || localUrl(address)).replace(/\/$/, '');
  const clientAddress = createClientAddress(config);
  const streams = createStreamLimits(config);
  const grants = createAppGrants(services, tokens);
  const apps = startApps(start, parts, { clientAddress, streams, grants });
  const signIn = await startSignIn(start, services, installation);
  const dashboard = start.dashboard ?? createDashboard({ log: log.child({ part: 'dashboard' }) });
  closer.add('dashboard', () => dashboard.close());
  const cspReports = createCspReports({ clock, log, ...(metrics ? { count: metrics.cspReported } : {}) });
  const inside = new InsideRequests();
  const handlers = await createHandlers(services, {
    connections,
    signIn,
    tokens,
    cspReports,
    profiler,
    late,
    inside,
    streams,
    grants,
    proxyKeys: installation.proxyKeys,
    ...startProxyLinks(start, parts, streams),
    proxyHealth: parts.proxyHealth,
  });
  const stall = await startStallWatch(start, parts.database);
  const terminal = terminalPass(services, tokens);
  const app = await createHttp({
    services,
    clientAddress,
    stall,
    sessions: connections.sessions,
    handlers,
    streams,
    apps,
    pass: async (route, request) => inside.actorOf(request) ?? terminal(route, request),
    plain: (http, rateLimit) =>
      addPlainRoutes(http, start, parts, {
        clientAddress,
        rateLimit,
        stall,
        dashboard,
        cspReports,
        flows: signIn.flows,
      }),
  });
  inside.bind(app);
  const unanswered = new Unanswered(app.server);
  const { url, port } = await listen(app.server, address, '--http-address (CODER_HTTP_ADDRESS)');
  if (!config.accessUrl) services.accessUrl = services.accessUrl.replace(/:\d+$/, `:${port}`);
  closer.add('http', async () => {
    // it listens by itself: the framework does not know that there is something to close
    await endServer(app.server, start, unanswered);
    await app.close();
  });
  return {
    server: app.server,
    url,
    address: { host: address.host, port },
    localUrl: localUrl({ host: address.host, port }),
    providers: signIn.providers,
    unanswered,
  };
}

function startApps(
  { closer }: Starting,
  { services, installation: { tokens }, connections: { sessions, cluster } }: HttpParts,
  { clientAddress, streams, grants }: { clientAddress: ClientAddress; streams: StreamLimits; grants: AppGrants },
): AppProxy {
  const place = createAppPlace(services.config, services);
  const apps = createAppProxy({
    place,
    door: new ServerDoor({ services, place, clientAddress, sessions, tokens, grants }),
    toError: (thrown, context) => toAppError(thrown, services.log, context),
    clientAddress,
    streams,
    dial: ({ agent, port }, signal) => cluster.agents.open(agent, { service: 'tcp', port }, signal),
  });
  closer.add('apps', () => apps.close());
  return apps;
}

function startProxyLinks(
  { closer }: Starting,
  { services, installation: { proxyKeys }, connections: { cluster, tailnet } }: HttpParts,
  streams: StreamLimits,
): { proxyLinks: ProxyLinks; tunnelPaths: TunnelPaths } {
  const rights = new ProxyRights(services, proxyKeys);
  const proxyLinks = new ProxyLinks(services, { rights, agents: cluster.agents, streams, hub: tailnet });
  const tunnelPaths = new TunnelPaths(services, { rights, agents: cluster.agents });
  closer.add('links of workspace proxies', async () => {
    tunnelPaths.close();
    await proxyLinks.close();
  });
  return { proxyLinks, tunnelPaths };
}

interface PlainParts {
  clientAddress: ClientAddress;
  rateLimit: RateLimit;
  stall: DatabaseStall;
  dashboard: Dashboard;
  cspReports: CspReports;
  flows: Flows;
}

/** Adds the routes outside the contract, and what observes all routes. */
function addPlainRoutes(
  http: FastifyInstance,
  { config, log, findBinary }: Starting,
  {
    services,
    installation: { tokens },
    connections: { sessions, cluster, tailnet },
    metrics,
    tracing,
    late,
    proxyHealth,
  }: HttpParts,
  { clientAddress, rateLimit, stall, dashboard, cspReports, flows }: PlainParts,
): void {
  metrics?.observe(http);
  tracing?.observe(http);
  replicaRoutes(http, services, cluster);
  relayRoutes(http, { hub: tailnet, clientAddress });
  scimRoutes(http, { services, clientAddress });
  plainRoutes(http, services, async () => {
    if (late.phase === 'starting') throw new AppError('unavailable', 'The server is starting.');
    if (late.phase === 'stopping') throw new AppError('unavailable', 'The server is shutting down.');
    await stall.answers();
  });
  if (config.swaggerEnable) apiPage(http);
  const oauth2 = { services, clientAddress, rateLimit, stall, sessions, tokens };
  protocolRoutes(http, oauth2);
  consentRoutes(http, oauth2);
  externalAuthRoutes(http, { services, sessions, flows, clientAddress });
  dashboardRoutes(http, {
    dashboard,
    cspReports,
    clientAddress,
    additionalPolicy: config.additionalCspPolicy,
    appOrigins: () => appOrigins(services),
    proxies: () => proxyHealth.served(),
  });
  const describe = describeExecutables(findBinary);
  const signer = createSigner(services);
  installRoutes(http, services, describe, signer);
  binaryRoutes(http, { describe, cacheDir: config.cacheDirectory, signer, log });
}

/** Listens for TLS, if it is enabled, and returns where. */
export async function startHttps(
  start: Starting,
  { services, late }: HttpParts,
  { server, unanswered }: RunningHttp,
): Promise<string | undefined> {
  const { config, log, closer } = start;
  if (!config.tlsEnable) return undefined;
  // loaded for those who configured it
  const { createTlsServer } = await import('../http/tls.ts');
  const { server: secure, certificates } = createTlsServer(server, config, log.child({ part: 'tls' }));
  late.certificates = certificates;
  closer.add('https', () => endServer(secure, start, unanswered));
  const { host, port } = parseAddress(config.tlsAddress);
  const listening = await listen(secure, { host, port }, '--tls-address (CODER_TLS_ADDRESS)');
  // people use the encrypted address unless they were given another
  if (!config.accessUrl) services.accessUrl = localUrl({ host, port: listening.port }, 'https');
  return listening.url;
}

/** Warns of options that keep browsers from signing in. Call it when the access URL is final. */
export function warnOfRejectedCookies({ config, log }: Starting, { accessUrl }: Pick<Services, 'accessUrl'>): void {
  const flags = rejectedCookieFlags(config, accessUrl);
  if (flags.length === 0) return;
  const [names, them] = flags.length > 1 ? [flags.join(' and '), 'them'] : [flags[0], 'it'];
  log.warn(
    `browsers cannot sign in: ${names} requires HTTPS, but the access URL starts with http. Set --access-url to an https URL, or turn ${them} off`,
    { access_url: accessUrl },
  );
}

/** Stops listening, answers the requests that it has, and ends all connections. */
async function endServer(server: Server | HttpsServer, { clock }: Starting, unanswered: Unanswered): Promise<void> {
  unanswered.leave();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  await unanswered.none(clock, LAST_ANSWERS_MS);
  server.closeAllConnections();
  await closed;
}

/** Where a process of this machine reaches the server. */
function localUrl({ host, port }: Address, protocol = 'http'): string {
  return `${protocol}://${host === '0.0.0.0' || host === '::' ? '127.0.0.1' : hostText(host)}:${port}`;
}
