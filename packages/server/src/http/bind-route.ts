/**
 * Binds a route of the contract to its handler. A request passes in this order: its actor is found and its streams are
 * counted before the body is read (`admitting`), the body and the query are tidied before they are validated (`tidying`),
 * and the handler's return value becomes the response (`answering`).
 */
import { apiPath, Nothing, type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { errorText, isAppError } from '@ropewalk/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { auditRefusedWrite } from '../app/audit/refused.ts';
import type { Ctx, Services } from '../app/context/context.ts';
import { findAgentForToken } from '../app/find/agent.ts';
import { sharedBody } from '../app/lists/shared-answer.ts';
import { networkOf } from '../app/values/network.ts';
import type { Actor } from '../authz/actor.ts';
import { requestToken } from './auth.ts';
import type { Authenticate } from './authenticate.ts';
import { BODY_LIMIT, type Holder, limitUpload, UPLOAD_MS } from './body.ts';
import type { ClientAddress } from './client-address.ts';
import { compress, encodedHeaders, encodingFor, isCompressible, MAX_PLAIN } from './compression.ts';
import type { DatabaseStall } from './database-stall.ts';
import { exchange, type Handler, type Handlers, isUpgrade } from './exchange.ts';
import { checkUrl, parseLoosely, tidyBody } from './input.ts';
import type { RateLimit } from './rate-limit.ts';
import { RequestContext } from './request-context.ts';
import { kindOfStream, MAX_MESSAGE_BYTES, type StreamHolder, type StreamLimits, staysOpen } from './stream-limits.ts';
import { unknownKeyCheck } from './unknown-keys.ts';
import { zeroReader } from './zero-values.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Found before the body is read, so that validation reveals nothing to a stranger. */
    actor: Actor | null;
    /** The holder of the body in memory. Null stands for the client's network. */
    holder: Holder | null;
  }
}

/** What all routes share. */
export interface RouteParts {
  services: Services;
  clientAddress: ClientAddress;
  handlers: Handlers<RouteKey>;
  authenticate: Authenticate;
  rateLimit: RateLimit;
  streams: StreamLimits;
  /** Ends the wait of requests for a database that does not answer. */
  stall: Pick<DatabaseStall, 'guard'>;
  /** The headers of every answer. */
  headers: Record<string, string>;
}

type RouteMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export function bindRoute(app: FastifyInstance, key: RouteKey, parts: RouteParts): void {
  const def: RouteDef = routes[key];
  const [method, path] = key.split(' ') as [RouteMethod, string];
  const response = Object.fromEntries(
    Object.entries(def.responses).filter(([, schema]) => schema !== Nothing && !def.stream),
  );
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
    onRequest: admitting(key, def, parts),
    preValidation: tidying(method, def),
    handler: answering(key, def, method, parts),
  });
}

function bodyLimitOf({ auth, bodyTypes }: RouteDef): number {
  if (auth === 'agent' || auth === 'proxy') return BODY_LIMIT.agent;
  if (auth !== 'session') return BODY_LIMIT.anonymous;
  return bodyTypes ? BODY_LIMIT.bytes : BODY_LIMIT.json;
}

/** Whether the input is a client's or a proxy's. That of agents and daemons has its own checks. */
const isChecked = ({ auth }: RouteDef) => auth !== 'agent' && auth !== 'daemon';

/** Calls `next`, or returns a promise instead. Most requests need none: a promise for each hook costs more than the hooks. */
type Hook = (request: FastifyRequest, reply: FastifyReply, next: () => void) => Promise<void> | undefined;

function admitting(key: RouteKey, def: RouteDef, parts: RouteParts): Hook {
  const { services, clientAddress, authenticate, rateLimit, stall } = parts;
  // a proxy asks for all of its visitors
  const counted = isChecked(def) && def.auth !== 'proxy';
  const callerOf = ({ actor, raw }: FastifyRequest) =>
    actor?.kind === 'user' ? actor : { network: networkOf(clientAddress(raw)) };
  const count = (request: FastifyRequest, reply: FastifyReply) => {
    if (counted) rateLimit.count(key, callerOf(request), request, reply);
  };
  const hold = (request: FastifyRequest, holder: Holder, ms: number) => {
    request.holder = holder;
    limitUpload(request.raw, ms);
  };
  const admit = (actor: Actor, request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    request.actor = actor;
    count(request, reply);
    const enter = () => countStream(key, def, parts, request, reply);
    if (actor.kind === 'user') {
      hold(request, { kind: 'person', id: actor.id }, def.bodyTypes ? UPLOAD_MS.bytes : UPLOAD_MS.json);
    } else if (actor.kind === 'proxy') hold(request, { kind: 'agent', id: actor.proxy.id }, UPLOAD_MS.json);
    else if (def.auth === 'agent' && def.body) {
      return stall.guard(findAgentForToken(services, requestToken(request)?.token)).then(({ id }) => {
        hold(request, { kind: 'agent', id }, UPLOAD_MS.json);
        enter();
      });
    }
    enter();
    return undefined;
  };
  return (request, reply, next) => {
    const rejected = (err: unknown): never => {
      count(request, reply);
      throw err;
    };
    let found: Actor | Promise<Actor>;
    try {
      found = authenticate(key, def, request);
    } catch (err) {
      return rejected(err);
    }
    if (found instanceof Promise) return stall.guard(found).then((actor) => admit(actor, request, reply), rejected);
    const admitted = admit(found, request, reply);
    if (admitted) return admitted;
    next();
    return undefined;
  };
}

/** Counts an answer that stays open, until its connection ends. Refused upgrades count until then, too. */
function countStream(
  key: RouteKey,
  def: RouteDef,
  { streams, clientAddress }: RouteParts,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const upgrade = isUpgrade(request.raw);
  if (def.auth === 'daemon' || !(upgrade || staysOpen(def))) return;
  const release = streams.hold(kindOfStream(key), streamHolder(def, clientAddress, request));
  const connection = upgrade ? request.raw.socket : reply.raw;
  connection.once('close', release);
  if (connection.destroyed) release();
}

function streamHolder({ auth }: RouteDef, clientAddress: ClientAddress, request: FastifyRequest): StreamHolder {
  if (request.actor?.kind === 'user') return { kind: 'person', id: request.actor.id };
  const token = auth === 'agent' ? requestToken(request)?.token : undefined;
  return token ? { kind: 'agent', id: token } : { kind: 'network', id: networkOf(clientAddress(request.raw)) };
}

function tidying(method: RouteMethod, def: RouteDef): Hook {
  const checked = isChecked(def);
  const booleans = Object.entries(def.query?.properties ?? {}).flatMap(([name, schema]) =>
    (schema as { type?: string }).type === 'boolean' ? [name] : [],
  );
  const readBody = def.body && zeroReader(def.body);
  const readQuery = def.query && zeroReader(def.query);
  const checkKeys = unknownKeyCheck(method, def);
  return (request, _reply, next) => {
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
    next();
    return undefined;
  };
}

function answering<K extends RouteKey>(key: K, def: RouteDef, method: RouteMethod, parts: RouteParts) {
  const { services, clientAddress, stall, headers } = parts;
  const { log } = services;
  const handler = parts.handlers[key] as unknown as Handler<K>;
  const success = Number(Object.keys(def.responses).find((code) => code.startsWith('2')) ?? 200);
  const sockets = { headers, maxMessageBytes: MAX_MESSAGE_BYTES[kindOfStream(key)] };
  const failed = async (err: unknown, ctx: Ctx, request: FastifyRequest): Promise<never> => {
    if (method !== 'GET' && ctx.actor.kind === 'user' && isAppError(err, 'forbidden')) {
      await auditRefusedWrite(ctx, key, (request.params ?? {}) as Record<string, string>).catch((problem) =>
        log.warn('could not record a rejected request', { route: key, err: errorText(problem) }),
      );
    }
    throw err;
  };
  const compressible = isCompressible(key, def);
  /** Returns the reply while it is not complete, for Fastify to wait. */
  const send = (answer: unknown, request: FastifyRequest, reply: FastifyReply): Unfinished => {
    if (isAnswered(reply)) return reply;
    if (success !== 200 && reply.statusCode === 200) reply.code(success);
    if (typeof answer !== 'object' || answer === null || Buffer.isBuffer(answer)) return sent(reply.send(answer));
    const write = (value: object) => reply.serialize(value) as string;
    const body = sharedBody(answer, write) ?? (compressible ? write(answer) : undefined);
    if (body === undefined) return sent(reply.send(answer));
    reply.type(JSON_TYPE);
    if (!compressible || body.length <= MAX_PLAIN) return sent(reply.send(body));
    reply.header('vary', 'Accept-Encoding');
    const encoding = encodingFor(request, clientAddress);
    if (!encoding) return sent(reply.send(body));
    return compress(body, encoding).then((bytes) => sent(reply.headers(encodedHeaders(encoding)).send(bytes)));
  };
  return (request: FastifyRequest, reply: FastifyReply): unknown => {
    const ctx = new RequestContext(services, { actor: request.actor!, ip: clientAddress(request.raw) }, request, reply);
    let work: unknown;
    try {
      work = handler(ctx, {
        params: request.params as never,
        query: request.query as never,
        body: request.body as never,
        http: exchange(request, reply, sockets),
      });
    } catch (err) {
      work = Promise.reject(err);
    }
    if (!(work instanceof Promise)) return send(work, request, reply);
    return stall
      .guard(work, () => isAnswered(reply))
      .then(
        (answer) => send(answer, request, reply),
        (err) => failed(err, ctx, request),
      );
  };
}

/** What Fastify waits for: a reply that is not complete. */
type Unfinished = FastifyReply | Promise<FastifyReply | undefined> | undefined;

const sent = (reply: FastifyReply): Unfinished => (reply.sent ? undefined : reply);

const JSON_TYPE = 'application/json; charset=utf-8';

const isAnswered = (reply: FastifyReply): boolean => reply.sent || reply.raw.headersSent;
