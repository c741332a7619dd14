// The endpoints for apps: tokens, revocation, registration and metadata. Requests of other sites in a browser are
// permitted, without cookies, because apps may run there.

import { isAppError } from '@ropewalk/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx, Services } from '../../app/context/context.ts';
import { OAuth2Failure } from '../../app/oauth2/failure.ts';
import { resourceMetadata, serverMetadata } from '../../app/oauth2/metadata.ts';
import {
  changeRegistration,
  deleteRegistration,
  readRegistration,
  registerApp,
} from '../../app/oauth2/registration.ts';
import { revokeOAuth2 } from '../../app/oauth2/revoke.ts';
import { exchangeToken } from '../../app/oauth2/tokens.ts';
import { networkOf } from '../../app/values/network.ts';
import type { ClientAddress } from '../client-address.ts';
import type { DatabaseStall } from '../database-stall.ts';
import { toAppError } from '../errors.ts';
import { parseLoosely, tidyBody } from '../input.ts';
import type { RateLimit } from '../rate-limit.ts';
import { RequestContext } from '../request-context.ts';
import { statusOf } from '../status.ts';

export interface OAuth2Parts {
  services: Services;
  clientAddress: ClientAddress;
  rateLimit: RateLimit;
  stall: Pick<DatabaseStall, 'guard'>;
}

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'WWW-Authenticate',
};
const PREFLIGHT = {
  ...CORS,
  'access-control-allow-methods': 'GET, POST, PUT, DELETE, OPTIONS',
  'access-control-allow-headers': 'Accept, Authorization, Content-Type, MCP-Protocol-Version',
  'access-control-max-age': '86400',
};
const NO_STORE = { 'cache-control': 'no-store', pragma: 'no-cache' };
/** Of a registration with keys. Everything else is shorter. */
const MAX_BODY = 64 * 1024;

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
type Handle = (ctx: Ctx, request: FastifyRequest, reply: FastifyReply) => unknown;

export function protocolRoutes(app: FastifyInstance, parts: OAuth2Parts): void {
  const { services, clientAddress, rateLimit, stall } = parts;
  const preflights = new Set<string>();
  const route = (method: Method, path: string, handle: Handle) => {
    if (!preflights.has(path)) {
      preflights.add(path);
      app.options(path, async (_request, reply) => reply.code(204).headers(PREFLIGHT).send());
    }
    app.route({
      method,
      url: path,
      bodyLimit: MAX_BODY,
      onRequest: async (request, reply) => {
        reply.headers({ ...CORS, ...NO_STORE });
        rateLimit.count(`${method} ${path}`, { network: networkOf(clientAddress(request.raw)) }, request, reply);
      },
      handler: async (request, reply) => {
        const ctx = new RequestContext(
          services,
          { actor: { kind: 'none' }, ip: clientAddress(request.raw) },
          request,
          reply,
        );
        const answer = await stall.guard(Promise.resolve(handle(ctx, request, reply)));
        return reply.type('application/json').send(answer === undefined ? undefined : JSON.stringify(answer));
      },
      errorHandler: (err, request, reply) => answerFailure(parts, err, request, reply),
    });
  };

  route('POST', '/oauth2/tokens', (ctx, request) => exchangeToken(ctx, formOf(request), request.headers.authorization));
  route('POST', '/oauth2/revoke', async (ctx, request) => {
    await revokeOAuth2(ctx, formOf(request), request.headers.authorization);
    return {};
  });
  route('POST', '/oauth2/register', (ctx, request, reply) => {
    reply.code(201);
    return registerApp(ctx, jsonOf(request));
  });
  const idOf = (request: FastifyRequest) => (request.params as { id: string }).id;
  const CLIENT = '/oauth2/clients/:id';
  route('GET', CLIENT, (ctx, request) => readRegistration(ctx, idOf(request), request.headers.authorization));
  route('PUT', CLIENT, (ctx, request) =>
    changeRegistration(ctx, idOf(request), request.headers.authorization, jsonOf(request)),
  );
  route('DELETE', CLIENT, async (ctx, request, reply) => {
    await deleteRegistration(ctx, idOf(request), request.headers.authorization);
    reply.code(204);
  });

  for (const end of ['', '/*']) {
    route('GET', `/.well-known/oauth-authorization-server${end}`, serverMetadata);
    route('GET', `/.well-known/oauth-protected-resource${end}`, (ctx, request) => {
      const { '*': rest = '' } = request.params as { '*'?: string };
      return resourceMetadata(ctx, /^[\w./-]+$/.test(rest) ? `/${rest.replace(/\/+$/, '')}` : '');
    });
  }
}

/** The parameters of a form. @throws OAuth2Failure `invalid_request` for a body of another type */
function formOf({ body, headers }: FastifyRequest): URLSearchParams {
  if (body === undefined) return new URLSearchParams();
  if (!Buffer.isBuffer(body) || !/^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? ''))
    throw new OAuth2Failure('invalid_request', 'The body must be application/x-www-form-urlencoded.');
  return new URLSearchParams(body.toString('utf8'));
}

function jsonOf({ body }: FastifyRequest): unknown {
  const value = body === undefined || Buffer.isBuffer(body) ? parseLoosely(body) : body;
  tidyBody(value, true);
  return value;
}

/** Answers with an error in the form of RFC 6749, section 5.2. */
export function answerFailure(
  { services }: Pick<OAuth2Parts, 'services'>,
  err: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const failure = err instanceof OAuth2Failure ? err : failureOf(services, err, request, reply);
  if (failure.error === 'invalid_client') reply.header('www-authenticate', 'Basic realm="coder"');
  if (failure.error === 'invalid_token')
    reply.header('www-authenticate', 'Bearer realm="coder", error="invalid_token"');
  void reply
    .code(failure.status)
    .headers(NO_STORE)
    .type('application/json')
    .send(JSON.stringify({ error: failure.error, error_description: failure.message }));
}

function failureOf(services: Services, err: unknown, request: FastifyRequest, reply: FastifyReply): OAuth2Failure {
  const known = isAppError(err) ? err : toAppError(err, services.log, { route: request.routeOptions.url });
  if (known.retryAfter !== undefined) reply.header('retry-after', known.retryAfter);
  const status = statusOf[known.code];
  const error = status >= 500 ? 'server_error' : status === 429 ? 'temporarily_unavailable' : 'invalid_request';
  return new OAuth2Failure(error, [known.message, known.detail].filter(Boolean).join(' '), status);
}
