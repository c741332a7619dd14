import { AppError } from '@ropewalk/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx, Services } from '../app/context/context.ts';
import type { Actor } from '../authz/actor.ts';

/**
 * The context of one request. It is a class because an accessor in an object literal costs V8 a hidden class for each
 * object. Hidden classes live in the old half of the heap and keep everything alive that the request has made, until the
 * whole heap is marked.
 */
export class RequestContext implements Ctx {
  readonly sql: Ctx['sql'];
  readonly lists: Ctx['lists'];
  readonly events: Ctx['events'];
  readonly work: Ctx['work'];
  readonly config: Ctx['config'];
  readonly clock: Ctx['clock'];
  readonly log: Ctx['log'];
  readonly vault: Ctx['vault'];
  readonly deploymentId: string;
  readonly version: string;
  readonly accessUrl: string;
  readonly optionSources: Ctx['optionSources'];
  readonly warnings: string[];
  readonly builtinDaemonsProblem: Ctx['builtinDaemonsProblem'];
  readonly backgroundTasks: Ctx['backgroundTasks'];
  readonly agentsWait: Ctx['agentsWait'];
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
    this.sql = services.sql;
    this.lists = services.lists;
    this.events = services.events;
    this.work = services.work;
    this.config = services.config;
    this.clock = services.clock;
    this.log = services.log;
    this.vault = services.vault;
    this.deploymentId = services.deploymentId;
    this.version = services.version;
    this.accessUrl = services.accessUrl;
    this.optionSources = services.optionSources;
    this.warnings = services.warnings;
    this.builtinDaemonsProblem = services.builtinDaemonsProblem;
    this.backgroundTasks = services.backgroundTasks;
    this.agentsWait = services.agentsWait;
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
