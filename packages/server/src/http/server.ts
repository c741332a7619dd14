import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { apiPath, Nothing, type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { auditRefusedWrite } from '../app/audit/refused.ts';
import type { Services } from '../app/context/context.ts';
import type { Sessions } from '../app/context/session.ts';
import { warnOfExperiments } from '../app/deployment/info.ts';
import { findAgentForToken } from '../app/find/agent.ts';
import { sharedBytes } from '../app/lists/shared-answer.ts';
import { operatorAccess } from '../app/provisioner/operator-access.ts';
import { parseAppHost, parseWildcard } from '../app/values/app-address.ts';
import { networkOf } from '../app/values/network.ts';
import type { Actor } from '../authz/actor.ts';
import { redirectTarget, strictTransportSecurity } from './access-url.ts';
import type { AppProxy } from './apps/proxy.ts';
import { checkForgery, checkOrigin, requestToken } from './auth.ts';
import { BODY_LIMIT, createBodyBudget, type Holder, limitUpload, UPLOAD_MS } from './body.ts';
import type { ClientAddress } from './client-address.ts';
import type { DatabaseStall } from './database-stall.ts';
import { answerError, installErrors, toAppError } from './errors.ts';
import { exchange, type Handler, type Handlers, isUpgrade, rememberUpgrade } from './exchange.ts';
import { checkJsonSize, checkUrl, parseLoosely, tidyBody } from './input.ts';
import { LISTENER } from './listener.ts';
import { createRateLimit } from './rate-limit.ts';
import { RequestContext } from './request-context.ts';
import { kindOfStream, MAX_MESSAGE_BYTES, type StreamHolder, type StreamLimits, staysOpen } from './stream-limits.ts';
import { unknownKeyCheck } from './unknown-keys.ts';
import { compilersFactory } from './validate.ts';
import { zeroReader } from './zero-values.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Found before the body is read, so that validation reveals nothing to a stranger. */
    actor: Actor | null;
    /** The holder of the body in memory. Null stands for the client's network. */
    holder: Holder | null;
  }
}

export interface HttpOptions {
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
  plain(app: FastifyInstance): void;
}

/** The HTTP server: every route of the contract bound to its handler, errors mapped, upgrades routed like requests. */
export async function createHttp(options: HttpOptions): Promise<FastifyInstance> {
  const { services, clientAddress, sessions, handlers, streams, stall, apps, pass, plain } = options;
  const { log, version } = services;
  warnOfExperiments(services);
  const operatorFor = operatorAccess(services);
  const always = { 'X-Coder-Build-Version': version };
  const { config } = services;
  const onlyHttps = strictTransportSecurity(config.strictTransportSecurity, config.strictTransportSecurityOptions);
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  const isAppHost = (host: string) => wildcard !== undefined && parseAppHost(wildcard, host) !== undefined;
  let server!: Server;
  const app = fastify({
    logger: false,
    bodyLimit: BODY_LIMIT.anonymous,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    genReqId: () => crypto.randomUUID(),
    schemaController: { compilersFactory },
    // rejected before a route was found: no hook has run
    frameworkErrors: (err, _request, reply) => {
      answerError(toAppError(err, log), reply.headers(always) as FastifyReply);
    },
    serverFactory: (handler) => {
      // uploads to apps have no time limit. Those to the API have their own
      const take = (request: IncomingMessage, response: ServerResponse) => {
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
      server = createServer(LISTENER, take);
      // the server asks for an app's upload once it knows the sender
      server.on('checkContinue', take);
      return server;
    },
  });
  const rateLimit = createRateLimit(config, services.clock);
  const callerOf = ({ actor, raw }: FastifyRequest) =>
    actor?.kind === 'user' ? actor : { network: networkOf(clientAddress(raw)) };
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
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers(always);
  });
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
  app.decorateRequest('actor', null);
  app.decorateRequest('holder', null);
  installErrors(app, log);
  for (const key of Object.keys(routes) as RouteKey[]) register(key);
  plain(app);
  await app.ready();
  server.on('upgrade', (request, socket, head) => {
    if (apps.upgrade(request, socket, head)) return;
    socket.on('error', () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as never);
    response.on('finish', () => socket.end());
    rememberUpgrade(request, { socket, head, response });
    app.routing(request, response);
  });
  return app;

  function register<K extends RouteKey>(key: K): void {
    const def: RouteDef = routes[key];
    const [method, path] = key.split(' ') as [RouteMethod, string];
    const handler = handlers[key] as unknown as Handler<K>;
    const success = Number(Object.keys(def.responses).find((code) => code.startsWith('2')) ?? 200);
    const response = Object.fromEntries(
      Object.entries(def.responses).filter(([, schema]) => schema !== Nothing && !def.stream),
    );
    // input of agents and daemons has its own checks
    const checked = def.auth === 'session' || def.auth === 'optional' || def.auth === 'none';
    const booleans = Object.entries(def.query?.properties ?? {}).flatMap(([name, schema]) =>
      (schema as { type?: string }).type === 'boolean' ? [name] : [],
    );
    const readBody = def.body && zeroReader(def.body);
    const readQuery = def.query && zeroReader(def.query);
    const checkKeys = unknownKeyCheck(method, def);
    app.route({
      method,
      url: apiPath(path).replaceAll(/\{(\w+)\}/g, ':$1'),
      bodyLimit: bodyLimitOf(def),
      schema: {
        ...(def.params ? { params: def.params } : {}),
        ...(def.query ? { querystring: def.query } : {}),
        ...(def.body ? { body: def.body } : {}),
        ...(Object.keys(response).length > 0 ? { response } : {}),
      },
      onRequest: async (request, reply) => {
        const limited = checked ? () => rateLimit.count(key, callerOf(request), request, reply) : () => {};
        request.actor = await stall.guard(actorFor(key, def, request)).catch((err) => {
          limited();
          throw err;
        });
        limited();
        if (request.actor.kind === 'user') {
          request.holder = { kind: 'person', id: request.actor.id };
          limitUpload(request.raw, def.bodyTypes ? UPLOAD_MS.bytes : UPLOAD_MS.json);
        } else if (def.auth === 'agent' && def.body) {
          const agent = await stall.guard(findAgentForToken(services, requestToken(request)?.token));
          request.holder = { kind: 'agent', id: agent.id };
          limitUpload(request.raw, UPLOAD_MS.json);
        }
        countStream(key, def, request, reply);
      },
      preValidation: async (request) => {
        // upstream's clients send null for an absent field, and a flag as its name alone
        if (def.body || checkKeys) {
          if (request.body === undefined || Buffer.isBuffer(request.body)) request.body = parseLoosely(request.body);
          readBody?.(request.body);
          tidyBody(request.body, checked);
          checkKeys?.(request.body);
        }
        if (checked) checkUrl(request);
        const query = request.query as Record<string, unknown>;
        for (const name of booleans) if (query[name] === '') query[name] = true;
        readQuery?.(query);
      },
      handler: async (request, reply) => {
        const ctx = new RequestContext(
          services,
          { actor: request.actor!, ip: clientAddress(request.raw) },
          request,
          reply,
        );
        const answered = () => reply.sent || reply.raw.headersSent;
        let answer: unknown;
        try {
          const work = handler(ctx, {
            params: request.params as never,
            query: request.query as never,
            body: request.body as never,
            http: exchange(request, reply, { headers: always, maxMessageBytes: MAX_MESSAGE_BYTES[kindOfStream(key)] }),
          });
          answer = await (work instanceof Promise ? stall.guard(work, answered) : work);
        } catch (err) {
          if (method !== 'GET' && ctx.actor.kind === 'user' && isAppError(err, 'forbidden')) {
            await auditRefusedWrite(ctx, key, (request.params ?? {}) as Record<string, string>).catch((problem) =>
              log.warn('could not record a rejected request', { route: key, err: errorText(problem) }),
            );
          }
          throw err;
        }
        if (answered()) return reply;
        if (reply.statusCode === 200) reply.code(success);
        if (answer === undefined) return reply.send();
        const bytes = sharedBytes(answer, (value) => reply.serialize(value) as string);
        if (bytes) return reply.type('application/json; charset=utf-8').send(bytes);
        return answer;
      },
    });
  }

  /** Counts an answer that stays open, until its connection ends. Refused upgrades count until then, too. */
  function countStream(key: RouteKey, def: RouteDef, request: FastifyRequest, reply: FastifyReply): void {
    const upgrade = isUpgrade(request.raw);
    if (def.auth === 'daemon' || !(upgrade || staysOpen(def))) return;
    const release = streams.hold(kindOfStream(key), streamHolder(def, request));
    const connection = upgrade ? request.raw.socket : reply.raw;
    connection.once('close', release);
    if (connection.destroyed) release();
  }

  function streamHolder({ auth }: RouteDef, request: FastifyRequest): StreamHolder {
    if (request.actor?.kind === 'user') return { kind: 'person', id: request.actor.id };
    const token = auth === 'agent' ? requestToken(request)?.token : undefined;
    return token ? { kind: 'agent', id: token } : { kind: 'network', id: networkOf(clientAddress(request.raw)) };
  }

  async function actorFor(key: RouteKey, def: RouteDef, request: FastifyRequest): Promise<Actor> {
    const ownHosts = [new URL(services.accessUrl).host];
    if (request.headers.upgrade !== undefined) checkForgery(request, false, ownHosts);
    if (def.auth === 'optional') {
      const found = requestToken(request);
      // an expired session is as good as none
      const known = found && (await sessions.verify(found.token).catch(noneIfSignedOut));
      return known?.actor ?? { kind: 'none' };
    }
    if (def.auth !== 'session') {
      // another site could sign the browser in as a person of its choice
      if (request.method !== 'GET' && request.method !== 'HEAD') checkOrigin(request, ownHosts);
      return { kind: 'none' };
    }
    const found = requestToken(request);
    if (!found) {
      const passed = await pass?.(key, request);
      if (passed) return passed;
      throw new AppError(
        'unauthenticated',
        'You are signed out or your session has expired. Please sign in again to continue.',
        {
          detail: 'No session token was sent: use the Coder-Session-Token header or the session cookie.',
        },
      );
    }
    checkForgery(request, found.fromCookie, ownHosts);
    const operator = found.fromCookie ? undefined : await operatorFor(key, found.token);
    if (operator) return operator;
    return (await sessions.verify(found.token)).actor;
  }
}

/** Nobody, for a session that does not exist or has ended. */
function noneIfSignedOut(err: unknown): undefined {
  if (!isAppError(err, 'unauthenticated')) throw err;
}

/** How long the rest of a body may take after its request was answered. */
const AFTER_ANSWER_MS = 5_000;

function bodyLimitOf({ auth, bodyTypes }: RouteDef): number {
  if (auth === 'agent') return BODY_LIMIT.agent;
  if (auth !== 'session') return BODY_LIMIT.anonymous;
  return bodyTypes ? BODY_LIMIT.bytes : BODY_LIMIT.json;
}

type RouteMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
