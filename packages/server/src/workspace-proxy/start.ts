import type { IncomingMessage, Server } from 'node:http';
import type { BuildInfoResponse, IssueTokenRequest } from '@ropewalk/contract';
import { AppError, type Clock, errorText, isAppError, type Logger, systemClock } from '@ropewalk/kit';
import { VERSION } from '@ropewalk/kit/version';
import { VISITOR_HEADER } from '@ropewalk/wire/proxy-link';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { AppGrant } from '../app/context/sealed-tokens.ts';
import { type Address, listen, ownAddress, parseAddress } from '../config/listen.ts';
import { createAppPlace } from '../http/apps/place.ts';
import { type AppProxy, createAppProxy } from '../http/apps/proxy.ts';
import { type ClientAddress, createClientAddress } from '../http/client-address.ts';
import { createStreamLimits, type StreamLimits } from '../http/stream-limits.ts';
import { AgentPaths } from './agent-paths.ts';
import { serveClientTunnel } from './client-tunnel.ts';
import { ProxyDoor, sessionOf } from './door.ts';
import { ProxyGrants } from './grants.ts';
import { ServerLink } from './link.ts';
import { createProxyListener } from './listener.ts';
import { checkAddresses, type ProxyAddresses, type WorkspaceProxyOptions } from './options.ts';
import { Primary } from './primary.ts';
import { Registration } from './registration.ts';
import type { ProxyRelay, ProxyRelayParts } from './relay.ts';
import { Siblings } from './siblings.ts';
import { ProxiedTerminal } from './terminal.ts';
import { VerificationKeys } from './verification-keys.ts';

export interface RunningWorkspaceProxy {
  /** Where it listens, without a slash at its end. */
  url: string;
  close(): Promise<void>;
}

/** The parts of a proxy, in the order in which they start. */
interface ProxyParts {
  options: WorkspaceProxyOptions;
  addresses: ProxyAddresses;
  primary: Primary;
  keys: VerificationKeys;
  link: ServerLink;
  siblings: Siblings;
  paths: AgentPaths;
  registration: Registration;
  clientAddress: ClientAddress;
  streams: StreamLimits;
  clock: Clock;
  log: Logger;
}

/**
 * Starts a workspace proxy. It listens also while its server cannot be reached, and shows visitors why it does not serve them.
 * @throws AppError `invalid` for wrong options, `unavailable` if it cannot listen
 */
export async function startWorkspaceProxy({
  options,
  log,
  clock = systemClock,
}: {
  options: WorkspaceProxyOptions;
  log: Logger;
  clock?: Clock;
}): Promise<RunningWorkspaceProxy> {
  const addresses = checkAddresses(options);
  const primary = new Primary(addresses.primaryUrl, options.sessionToken);
  const keys = new VerificationKeys({ primary, proxyId: addresses.proxyId, clock, log });
  const processId = crypto.randomUUID();
  const link = new ServerLink({ primary, processId, clock, log });
  const siblings = new Siblings({ token: options.sessionToken, clock, log });
  const paths = new AgentPaths({ keys, link, siblings, clock, log });
  const registration = new Registration({
    primary,
    processId,
    addresses,
    options,
    siblings,
    version: VERSION,
    clock,
    log,
  });
  const clientAddress = createClientAddress(options);
  const streams = createStreamLimits({ ...options, maxFormsPerUser: 0, maxStreamsPerUser: 0 });
  const relay = options.derpServerEnable ? await startRelay({ link, clientAddress, clock, log }) : undefined;
  const parts = {
    options,
    addresses,
    primary,
    keys,
    link,
    siblings,
    paths,
    registration,
    clientAddress,
    streams,
    clock,
    log,
  };
  const apps = createApps(parts);
  const server = createListener(parts, { apps, relay });
  const { url, port, secure } = await listenAll(server, options, log).catch(async (err) => {
    await relay?.close();
    throw err;
  });
  link.onUp(() => {
    if (registration.isRegistered) registration.again();
    keys.refresh().catch((err) => log.debug('could not read the keys of the server', { err: errorText(err) }));
  });
  link.start();
  registration.start(options.derpServerRelayUrl || ownAddress('http', { ...parseAddress(options.httpAddress), port }));
  return {
    url,
    close: async () => {
      await registration.close();
      const closed = [server, secure].map((one) => one && new Promise<void>((done) => one.close(() => done())));
      apps.close();
      paths.close();
      siblings.close();
      await relay?.close();
      await link.close();
      keys.close();
      for (const one of [server, secure]) one?.closeAllConnections();
      await Promise.all(closed);
    },
  };
}

/** Loaded for those who did not turn it off. */
async function startRelay(parts: ProxyRelayParts): Promise<ProxyRelay> {
  const { ProxyRelay } = await import('./relay.ts');
  return new ProxyRelay(parts);
}

function createApps({
  options,
  addresses,
  primary,
  keys,
  link,
  paths,
  clientAddress,
  streams,
  clock,
  log,
}: ProxyParts): AppProxy {
  const place = {
    ...createAppPlace(options, addresses),
    accessUrl: addresses.accessUrl,
    dashboardUrl: addresses.primaryUrl,
    isSecure: options.secureAuthCookie || addresses.accessUrl.startsWith('https:'),
  };
  const grants = new ProxyGrants({ keys, link, paths, clock });
  return createAppProxy({
    place,
    door: new ProxyDoor({ addresses, place, clientAddress, primary, keys, grants, clock }),
    toError: toErrorOf(log),
    clientAddress,
    streams,
    dial: async (target, signal) => {
      const grant = target as AppGrant;
      const [token, permit] = [grants.tokenOf(grant), grants.permitOf(grant)];
      const direct = permit && (await paths.open(grant.agent, permit, signal));
      if (direct) return direct;
      // the next connection is shorter, and this one does not wait for it
      void paths.invite(grant.agent, token);
      return link.open({ service: 'app', grant: token }, signal);
    },
    // the server ends a connection together with the grant that opened it, so visitors share none. One that was opened before
    // the agent connected is not used after that
    poolOf: (target) => {
      const grant = target as AppGrant;
      const isDirect = grants.permitOf(grant) !== undefined && paths.has(grant.agent);
      return `${isDirect ? 'agent' : 'server'} ${grants.tokenOf(grant)}`;
    },
  });
}

function createListener(parts: ProxyParts, { apps, relay }: { apps: AppProxy; relay: ProxyRelay | undefined }): Server {
  const { options, addresses, link, registration, log } = parts;
  return createProxyListener({
    apps: options.derpOnly ? undefined : apps,
    relay: relay && ((request, socket, head) => relay.accept(request, socket, head)),
    primaryUrl: addresses.primaryUrl,
    buildInfo: buildInfo(addresses),
    strictTransportSecurity: options.strictTransportSecurity,
    strictTransportSecurityOptions: options.strictTransportSecurityOptions,
    report: () => ({
      errors: [link.problem, registration.problem].filter((text) => text !== undefined),
      warnings: [],
    }),
    hasBeenReady: () => link.hasBeenUp && registration.isRegistered,
    terminal: (agentId, request, signal, accept) => serveTerminal(parts, { agentId, request, signal, accept }),
    client: (request, signal, accept) => serveClientTunnel(parts, { request, signal, accept }),
    agent: (request, socket, head) => parts.paths.accept(request, socket, head),
    sibling: (request, socket, head) => parts.paths.acceptSibling(request, socket, head),
    toError: toErrorOf(log),
  });
}

const buildInfo = ({ primaryUrl }: ProxyAddresses): BuildInfoResponse => ({
  agent_api_version: '',
  dashboard_url: primaryUrl,
  deployment_id: '',
  external_url: '',
  provisioner_api_version: '',
  telemetry: false,
  upgrade_message: '',
  version: VERSION,
  webpush_public_key: '',
  workspace_proxy: true,
});

/** Upstream's name of the parameter in which pages send the token of a terminal. */
const TOKEN_PARAMETER = 'coder_signed_app_token_23db1dde';

async function serveTerminal(
  parts: ProxyParts,
  {
    agentId,
    request,
    signal,
    accept,
  }: { agentId: string; request: IncomingMessage; signal: AbortSignal; accept: () => WebSocketConnection },
): Promise<void> {
  const { clientAddress, link, paths, clock, log } = parts;
  const query = Object.fromEntries(new URL(request.url!, 'http://proxy').searchParams);
  const { [TOKEN_PARAMETER]: token, ...rest } = query;
  const grant = await terminalGrant(parts, { agentId, token, request, signal });
  const terminal = new ProxiedTerminal(
    { link, paths, clock, log },
    { agentId, grant, query: rest, ip: clientAddress(request), userAgent: request.headers['user-agent'] ?? '' },
  );
  await terminal.open(signal);
  try {
    void terminal.serve(accept());
  } catch (err) {
    terminal.end();
    throw err;
  }
}

/** The token of a grant for a terminal: from the page, or of a program that has a session token. */
async function terminalGrant(
  { primary, keys, clientAddress }: ProxyParts,
  wanted: { agentId: string; token: string | undefined; request: IncomingMessage; signal: AbortSignal },
): Promise<string> {
  const { agentId, token, request, signal } = wanted;
  const base = `/api/v2/workspaceagents/${agentId}/pty`;
  if (token !== undefined) {
    const grant = await keys.readFresh(token);
    if (grant?.kind === 'terminal' && grant.base === base) return token;
    throw new AppError('unauthenticated', 'The token is not valid for this terminal, or it has expired.');
  }
  const body: IssueTokenRequest = {
    app_request: { access_method: 'terminal', base_path: base, agent_name_or_id: agentId },
    session_token: sessionOf(request),
  };
  return primary.issue(body, { headers: { [VISITOR_HEADER]: clientAddress(request) }, signal });
}

async function listenAll(server: Server, options: WorkspaceProxyOptions, log: Logger) {
  const { url, port } = await listen(server, parseAddress(options.httpAddress), '--http-address (CODER_HTTP_ADDRESS)');
  if (!options.tlsEnable) return { url, port, secure: undefined };
  // loaded for those who configured it
  const { createTlsServer } = await import('../http/tls.ts');
  try {
    const { server: secure } = createTlsServer(server, options, log.child({ part: 'tls' }));
    const address: Address = parseAddress(options.tlsAddress);
    const listening = await listen(secure, address, '--tls-address (CODER_TLS_ADDRESS)');
    return { url: listening.url, port, secure };
  } catch (err) {
    server.close();
    throw err;
  }
}

const toErrorOf =
  (log: Logger) =>
  (thrown: unknown, context: Record<string, unknown>): AppError => {
    if (isAppError(thrown)) return thrown;
    log.error('a request failed', { ...context, err: errorText(thrown) });
    return new AppError('internal', 'The workspace proxy failed. Its log has the reason.', { cause: thrown });
  };
