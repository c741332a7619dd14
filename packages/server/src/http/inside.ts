import type { Fetch } from '@ropewalk/mcp';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Ctx } from '../app/context/context.ts';
import type { UserActor } from '../authz/actor.ts';

/** Names a request of this server to itself. Its value is random, known to this process only, and valid once. */
const HEADER = 'platform-inside-request';

/**
 * Requests that this server sends to itself for a person who has sent another one. They pass through everything that requests
 * from outside pass through, with the person's scopes and address. So permissions, limits and the audit log are in one place.
 * Only the token is not verified again: it may be for another part of the server.
 */
export class InsideRequests {
  #app: FastifyInstance | undefined;
  readonly #actors = new Map<string, UserActor>();

  /** The server that answers. */
  bind(app: FastifyInstance): void {
    this.#app = app;
  }

  /** The actor of a request. Undefined for a request from outside. */
  actorOf({ headers }: Pick<FastifyRequest, 'headers'>): UserActor | undefined {
    const id = headers[HEADER];
    if (typeof id !== 'string') return undefined;
    const actor = this.#actors.get(id);
    this.#actors.delete(id);
    return actor;
  }

  /** A `fetch` for addresses of this server, which asks for this person. */
  fetchAs(ctx: Pick<Ctx, 'accessUrl' | 'ip' | 'userAgent'>, actor: UserActor): Fetch {
    return async (url, { method, headers, body, signal }) => {
      signal?.throwIfAborted();
      const id = crypto.randomUUID();
      this.#actors.set(id, actor);
      try {
        const answer = await this.#app!.inject({
          method: method as 'GET',
          url: url.slice(ctx.accessUrl.length),
          headers: { ...headers, 'user-agent': ctx.userAgent, [HEADER]: id },
          ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : Buffer.from(body) }),
          remoteAddress: ctx.ip,
          ...(signal ? { signal } : {}),
        });
        const bytes = answer.rawPayload;
        return {
          status: answer.statusCode,
          headers: {
            get: (name) => ([] as unknown[]).concat(answer.headers[name.toLowerCase()] ?? []).join(', ') || null,
          },
          text: async () => bytes.toString('utf8'),
          arrayBuffer: async () =>
            bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer,
        };
      } finally {
        this.#actors.delete(id);
      }
    };
  }
}
