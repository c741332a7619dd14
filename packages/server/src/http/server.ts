import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { type RouteKey, routes } from '@ropewalk/contract';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Services } from '../app/context/context.ts';
import type { Sessions } from '../app/context/session.ts';
import { warnOfExperiments } from '../app/deployment/info.ts';
import { parseAppHost, parseWildcard } from '../app/values/app-address.ts';
import { networkOf } from '../app/values/network.ts';
import type { Actor } from '../authz/actor.ts';
import { redirectTarget, strictTransportSecurity } from './access-url.ts';
import type { AppProxy } from './apps/proxy.ts';
import { createAuthenticate } from './authenticate.ts';
import { bindRoute } from './bind-route.ts';
import { BODY_LIMIT, createBodyBudget, limitUpload, UPLOAD_MS } from './body.ts';
import type { ClientAddress } from './client-address.ts';
import type { DatabaseStall } from './database-stall.ts';
import { answerError, installErrors, toAppError } from './errors.ts';
import { type Handlers, rememberUpgrade } from './exchange.ts';
import { takePrefixedSession } from './host-cookies.ts';
import { checkJsonSize } from './input.ts';
import { LISTENER } from './listener.ts';
import { createRateLimit, type RateLimit } from './rate-limit.ts';
import type { StreamLimits } from './stream-limits.ts';
import { compilersFactory } from './validate.ts';

export interface HttpServerParts {
  services: Services;
  clientAddress: ClientAddress;
  sessions: Sessions;
  handlers: Handlers<RouteKey>;
  streams: StreamLimits;
  /** Ends the wait of requests for a database that does not answer. */
  stall: Pick<DatabaseStall, 'guard'>;
  /** Receives every request first, and serves those for workspace apps. */
  apps: AppProxy;
  /** Authenticates requests that use another credential instead of a session token. */
  pass?(route: RouteKey, request: FastifyRequest): Promise<Actor | undefined>;
  /** Routes outside /api/v2: pages, health, downloads. */
  plain(app: FastifyInstance, rateLimit: RateLimit): void;
}

/** The HTTP server: every route of the contract bound to its handler, errors mapped, upgrades routed like requests. */
export async function createHttp(parts: HttpServerParts): Promise<FastifyInstance> {
  const { services, clientAddress, handlers, streams, stall } = parts;
  warnOfExperiments(services);
  const authenticate = createAuthenticate(parts);
  const headers = { 'X-Coder-Build-Version': services.version };
  const app = createApp(parts, headers);
  const rateLimit = createRateLimit(services.config, services.clock);
  readBodies(app, clientAddress);
  app.addHook('onRequest', (_request, reply, next) => {
    reply.headers(headers);
    next();
  });
  logAnswers(app, parts);
  app.decorateRequest('actor', null);
  app.decorateRequest('holder', null);
  installErrors(app, services);
  const routeParts = { services, clientAddress, handlers, authenticate, rateLimit, streams, stall, headers };
  for (const key of Object.keys(routes) as RouteKey[]) bindRoute(app, key, routeParts);
  parts.plain(app, rateLimit);
  await app.ready();
  routeUpgrades(app, parts);
  return app;
}

function createApp(parts: HttpServerParts, headers: Record<string, string>): FastifyInstance {
  return fastify({
    logger: false,
    bodyLimit: BODY_LIMIT.anonymous,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    genReqId: () => crypto.randomUUID(),
    schemaController: { compilersFactory },
    // rejected before a route was found: no hook has run
    frameworkErrors: (err, _request, reply) => {
      answerError(toAppError(err, parts.services.log), reply.headers(headers) as FastifyReply);
    },
    serverFactory: (handler) => createListener(parts, handler),
  });
}

/** How long the rest of a body may take after its request was answered. */
const AFTER_ANSWER_MS = 5_000;

/** The server itself. It redirects clients of other addresses, and gives apps their requests, before the routes run. */
function createListener(
  { services, apps }: HttpServerParts,
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const { config } = services;
  const onlyHttps = strictTransportSecurity(config.strictTransportSecurity, config.strictTransportSecurityOptions);
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  const isAppHost = (host: string) => wildcard !== undefined && parseAppHost(wildcard, host) !== undefined;
  // uploads to apps have no time limit. Those to the API have their own
  const take = (request: IncomingMessage, response: ServerResponse) => {
    if (config.hostPrefixCookie) takePrefixedSession(request.headers);
    if (onlyHttps !== undefined) response.setHeader('Strict-Transport-Security', onlyHttps);
    const elsewhere =
      config.redirectToAccessUrl && redirectTarget(request, { accessUrl: services.accessUrl, isAppHost });
    if (elsewhere) {
      response.writeHead(307, { location: elsewhere }).end();
      return;
    }
    if (apps.request(request, response)) return;
    if (request.headers.expect !== undefined) response.writeContinue();
    // a client whose request was answered before its body was read stops sending soon
    if (limitUpload(request, UPLOAD_MS.anonymous)) {
      response.once('finish', () => limitUpload(request, AFTER_ANSWER_MS));
    }
    handler(request, response);
  };
  const server = createServer(LISTENER, take);
  // the server asks for an app's upload once it knows the sender
  server.on('checkContinue', take);
  return server;
}

/** Reads bodies under budgets: JSON as its value, and everything else as bytes. */
function readBodies(app: FastifyInstance, clientAddress: ClientAddress): void {
  const bodies = createBodyBudget();
  const readBody = (request: FastifyRequest) => {
    const holder = request.holder ?? { kind: 'anonymous' as const, id: networkOf(clientAddress(request.raw)) };
    return bodies.read(request.raw, holder, request.routeOptions.bodyLimit ?? BODY_LIMIT.anonymous);
  };
  const parseJson = app.getDefaultJsonParser('error', 'ignore') as (
    request: FastifyRequest,
    text: string,
    done: (err: Error | null, value?: unknown) => void,
  ) => void;
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    const body = await readBody(request);
    checkJsonSize(body);
    const text = body.toString('utf8');
    // clients send the content type of JSON without a body, too
    if (text === '') return undefined;
    return new Promise((resolve, reject) => {
      parseJson(request, text, (err, value) => (err ? reject(err) : resolve(value)));
    });
  });
  app.addContentTypeParser('*', readBody);
}

function logAnswers(app: FastifyInstance, { services: { log }, clientAddress }: HttpServerParts): void {
  if (!log.keeps('debug')) return;
  app.addHook('onResponse', async (request, reply) => {
    log.debug('answered a request', {
      request_id: request.id,
      method: request.method,
      // the pattern: a path may contain a key
      route: request.is404 ? undefined : request.routeOptions.url,
      status: reply.raw.statusCode,
      ms: Math.round(reply.elapsedTime),
      user: request.actor?.kind === 'user' ? request.actor.username : undefined,
      ip: clientAddress(request.raw),
    });
  });
}

/** Gives upgrades to apps, or routes them like requests. */
function routeUpgrades(app: FastifyInstance, { apps, services: { config } }: HttpServerParts): void {
  app.server.on('upgrade', (request, socket, head) => {
    if (config.hostPrefixCookie) takePrefixedSession(request.headers);
    if (apps.upgrade(request, socket, head)) return;
    socket.on('error', () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as never);
    response.on('finish', () => socket.end());
    rememberUpgrade(request, { socket, head, response });
    app.routing(request, response);
  });
}
