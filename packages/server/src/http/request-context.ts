import { AppError } from '@ropewalk/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx, Services } from '../app/context/context.ts';
import type { Actor } from '../authz/actor.ts';

/**
 * The fields of all services, whatever they are. All objects have the same hidden class, with fast properties. The copy
 * takes less than a microsecond.
 */
const ServiceFields = class {
  constructor(services: Services) {
    Object.assign(this, services);
  }
} as new (
  services: Services,
) => Readonly<Services>;

/**
 * The context of one request. It is a class because an accessor in an object literal costs V8 a hidden class for each
 * object. Hidden classes live in the old half of the heap and keep everything alive that the request has made, until the
 * whole heap is marked. The services are its own properties, so that a copy with `...` has them.
 */
export class RequestContext extends ServiceFields implements Ctx {
  readonly actor: Actor;
  readonly requestId: string;
  readonly ip: string;
  readonly userAgent: string;
  readonly #reply: FastifyReply;
  #closed: AbortSignal | undefined;

  constructor(
    services: Services,
    { actor, ip }: { actor: Actor; ip: string },
    request: FastifyRequest,
    reply: FastifyReply,
  ) {
    super(services);
    this.actor = actor;
    this.requestId = request.id;
    this.ip = ip;
    this.userAgent = request.headers['user-agent'] ?? '';
    this.#reply = reply;
  }

  /** Aborted when the client closes the connection. Made at the first use. */
  get signal(): AbortSignal {
    if (!this.#closed) {
      const controller = new AbortController();
      this.#reply.raw.once('close', () =>
        controller.abort(new AppError('canceled', 'The client closed the connection.')),
      );
      this.#closed = controller.signal;
    }
    return this.#closed;
  }
}
