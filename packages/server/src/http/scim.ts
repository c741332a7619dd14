/** SCIM 2.0 at /scim/v2, where provisioning clients such as Okta and Entra ID expect it. */
import { AppError, isAppError } from '@ropewalk/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Ctx, type Services, systemContext } from '../app/context/context.ts';
import { byId, MAX_RESULTS, providerConfig, resourceTypes, schemas } from '../app/scim/discovery.ts';
import { filterOf, patchOf, userOf } from '../app/scim/input.ts';
import { changeScimUser, createScimUser, getScimUser, listScimUsers } from '../app/scim/users.ts';
import { sameBytes, sha256 } from '../app/values/token.ts';
import type { ClientAddress } from './client-address.ts';
import { toAppError } from './errors.ts';
import { parseLoosely } from './input.ts';
import { statusOf } from './status.ts';

const TYPE = 'application/scim+json; charset=utf-8';
const LIST_SCHEMA = 'urn:ietf:params:scim:api:messages:2.0:ListResponse';
const ERROR_SCHEMA = 'urn:ietf:params:scim:api:messages:2.0:Error';

type Handle = (ctx: Ctx, request: FastifyRequest, reply: FastifyReply) => unknown;

/** Adds the routes, if --scim-auth-header is set. */
export function scimRoutes(
  app: FastifyInstance,
  { services, clientAddress }: { services: Services; clientAddress: ClientAddress },
): void {
  const secret = services.config.scimAuthHeader;
  if (secret === '') return;
  const expected = sha256(secret);

  function authenticate({ headers }: FastifyRequest): void {
    const given = headers.authorization ?? '';
    const bare = given.replace(/^Bearer /i, '');
    // the option may hold the whole header
    if (sameBytes(sha256(bare), expected) || sameBytes(sha256(given), expected)) return;
    throw new AppError('unauthenticated', 'The Authorization header does not match --scim-auth-header.');
  }

  const route = (method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, handle: Handle) =>
    app.route({
      method,
      url: `/scim/v2${path}`,
      // before the body is read
      onRequest: async (request) => authenticate(request),
      handler: async (request, reply) => {
        const ctx: Ctx = {
          ...systemContext(services, 'scim'),
          ip: clientAddress(request.raw),
          userAgent: request.headers['user-agent'] ?? '',
          requestId: request.id,
        };
        const answer = await handle(ctx, request, reply);
        return reply.type(TYPE).send(answer === undefined ? undefined : JSON.stringify(answer));
      },
      errorHandler: (err, request, reply) => {
        const error = isAppError(err) ? err : toAppError(err, services.log, { route: request.routeOptions.url });
        const status = statusOf[error.code];
        const fields = error.validations?.map(({ field, detail }) => `${field}: ${detail}`) ?? [];
        const detail = [error.message, error.detail, ...fields].filter(Boolean).join(' ');
        void reply
          .code(status)
          .type(TYPE)
          .send(
            JSON.stringify({
              schemas: [ERROR_SCHEMA],
              detail,
              status: String(status),
              ...(error.code === 'conflict' ? { scimType: 'uniqueness' } : {}),
            }),
          );
      },
    });

  const idOf = (request: FastifyRequest) => (request.params as { id: string }).id;
  const bodyOf = ({ body }: FastifyRequest) =>
    body === undefined || Buffer.isBuffer(body) ? parseLoosely(body) : body;

  const listOf = (all: readonly unknown[], startIndex = 1, totalResults = all.length) => ({
    schemas: [LIST_SCHEMA],
    totalResults,
    startIndex,
    itemsPerPage: all.length,
    Resources: all,
  });
  route('GET', '/ServiceProviderConfig', providerConfig);
  route('GET', '/ResourceTypes', (ctx) => listOf(resourceTypes(ctx)));
  route('GET', '/ResourceTypes/:id', (ctx, request) => byId(resourceTypes(ctx), idOf(request)));
  route('GET', '/Schemas', (ctx) => listOf(schemas(ctx)));
  route('GET', '/Schemas/:id', (ctx, request) => byId(schemas(ctx), idOf(request)));
  route('GET', '/Users', async (ctx, request) => {
    const query = request.query as Record<string, unknown>;
    const number = (name: string, fallback: number) => {
      const value = Number(query[name] ?? fallback);
      return Number.isSafeInteger(value) ? value : fallback;
    };
    const startIndex = Math.max(1, number('startIndex', 1));
    const limit = Math.min(Math.max(0, number('count', MAX_RESULTS)), MAX_RESULTS);
    const filter = filterOf(typeof query['filter'] === 'string' ? query['filter'] : undefined);
    const { users, count } = await listScimUsers(ctx, { filter, limit, offset: startIndex - 1 });
    return listOf(users, startIndex, count);
  });
  route('POST', '/Users', async (ctx, request, reply) => {
    const { user, created } = await createScimUser(ctx, userOf(bodyOf(request)));
    reply.code(created ? 201 : 200);
    return user;
  });
  route('GET', '/Users/:id', (ctx, request) => getScimUser(ctx, idOf(request)));
  route('PUT', '/Users/:id', (ctx, request) => changeScimUser(ctx, idOf(request), userOf(bodyOf(request))));
  route('PATCH', '/Users/:id', async (ctx, request) => {
    const { name } = await getScimUser(ctx, idOf(request));
    return changeScimUser(ctx, idOf(request), patchOf(bodyOf(request), name.formatted));
  });
  // the account stays, with its workspaces, for an administrator to delete
  route('DELETE', '/Users/:id', async (ctx, request, reply) => {
    await changeScimUser(ctx, idOf(request), { active: false });
    reply.code(204);
  });
}
