import type { ChangeHello } from '@ropewalk/contract';
import { rightsOf } from '../../authz/actor.ts';
import { type AuthzObject, may } from '../../authz/authorize.ts';
import { isFull } from '../../authz/scope.ts';
import type { EventMap } from '../../db/events.ts';
import { sharesConcern } from '../context/allowed.ts';
import type { Ctx } from '../context/context.ts';
import type { ReadableChange } from './change-readers.ts';
import type { ChangeRing, Position } from './change-ring.ts';
import type { NamedEvent, News, Source } from './follow.ts';

/** After this part of the ring without a visible change, a reader gets a new id, so that it can resume. */
const MARK_PART = 1 / 8;

export interface ChangeStreamOptions {
  ctx: Ctx;
  ring: ChangeRing;
  lastEventId: string | undefined;
  /** Registers an open stream, which is woken when the ring changes. Returns how to unregister it. */
  register(wake: () => void): () => void;
}

/** What one reader sees of the ring. */
export class ChangeStream implements Source<NamedEvent> {
  readonly #options: ChangeStreamOptions;
  readonly #reader: Reader;
  #wake = () => {};
  #greeted = false;
  /** Up to where the reader is current. */
  #at: Position;
  /** The number of the last change with whose id the reader can resume. */
  #marked: number;

  constructor(options: ChangeStreamOptions) {
    this.#options = options;
    this.#reader = createReader(options.ctx);
    this.#at = options.ring.end;
    this.#marked = this.#at.number;
  }

  /** A property, because it is passed on alone. */
  readonly permission = (now: Ctx): void => {
    this.#reader.settle(now);
    this.#wake();
  };

  subscribe(wake: () => void): () => void {
    this.#wake = wake;
    const { ctx, register } = this.#options;
    const unregister = register(wake);
    const offRevoked = ctx.events.on('revoked', ({ user_ids = [] }) => this.#reader.doubt(user_ids));
    const offShares = ctx.events.on('shares_changed', (shares) => this.#reader.share(shares) && wake());
    return () => {
      offRevoked();
      offShares();
      unregister();
    };
  }

  async next(): Promise<News<NamedEvent>> {
    const messages = this.#greeted ? [] : this.#greet();
    this.#greeted = true;
    // the reader's roles are being read again
    if (this.#reader.settled()) this.#readRing(messages);
    return { messages, more: false, end: false };
  }

  #greet(): NamedEvent[] {
    const { ctx, ring, lastEventId } = this.#options;
    const position = lastEventId === undefined ? undefined : ring.find(lastEventId);
    const resumed = position !== undefined;
    this.#at = position ?? ring.end;
    const hello = this.#message('hello', { version: ctx.version, resumed } satisfies ChangeHello);
    return resumed || lastEventId === undefined ? [hello] : [hello, this.#reset()];
  }

  #readRing(messages: NamedEvent[]): void {
    const { ring } = this.#options;
    const newRights = this.#reader.takeNewRights();
    const news = newRights ? undefined : ring.after(this.#at);
    if (!news) {
      messages.push(this.#reset());
      return;
    }
    this.#at = ring.end;
    for (const { number, event, found } of news) {
      if (this.#reader.mayRead(found)) {
        messages.push(event);
        this.#marked = number;
      } else if (found.permissions && this.#reader.mayHaveRead(found)) {
        messages.push(this.#reset());
        return;
      }
    }
    if (this.#at.number - this.#marked >= ring.mostKept * MARK_PART) messages.push(this.#message('ping', {}));
  }

  /** The event after which the reader reads everything again. */
  #reset(): NamedEvent {
    this.#at = this.#options.ring.end;
    return this.#message('reset', {});
  }

  #message(event: string, data: unknown): NamedEvent {
    this.#marked = this.#at.number;
    return { event, id: this.#at.id, data: JSON.stringify(data) };
  }
}

interface Reader {
  /** Whether the roles are known to be current. */
  settled(): boolean;
  /** Takes the current roles. */
  settle(now: Pick<Ctx, 'actor'>): void;
  /** Holds changes back until the roles are read again, if one of these users is the reader. */
  doubt(userIds: readonly string[]): void;
  /** Notes other rights of the reader, if a change of shared workspaces concerns the reader. Returns whether it does. */
  share(shares: EventMap['shares_changed']): boolean;
  /** Whether the reader got other rights since the last call. */
  takeNewRights(): boolean;
  mayRead(change: ReadableChange): boolean;
  /** Whether the reader may have lost the permission with this change. */
  mayHaveRead(change: ReadableChange): boolean;
}

/** Decides what one person sees. The answers of the policy are kept for as long as the person's roles are the same. */
function createReader(ctx: Pick<Ctx, 'actor'>): Reader {
  let { actor } = ctx;
  let settled = true;
  let newRights = false;
  let known = new Map<string, boolean>();
  const mayReadObject = (object: AuthzObject): boolean => {
    // a list of permitted users belongs to one object, and one of permitted objects to a token
    if (object.acl || (actor.kind === 'user' && !isFull(actor.scope))) return may(actor, 'read', object);
    const own = actor.kind === 'user' && object.ownerId === actor.id;
    const key = `${object.type} ${object.organizationId} ${own}`;
    let answer = known.get(key);
    if (answer === undefined) {
      answer = may(actor, 'read', object);
      known.set(key, answer);
    }
    return answer;
  };
  return {
    settled: () => settled,
    settle(now) {
      settled = true;
      if (actor.kind !== 'user' || now.actor.kind !== 'user') return;
      if (rightsOf(actor) === rightsOf(now.actor)) return;
      newRights = true;
      actor = now.actor;
      known = new Map();
    },
    doubt(userIds) {
      if (actor.kind === 'user' && userIds.includes(actor.id)) settled = false;
    },
    share(shares) {
      const concerns = actor.kind === 'user' && sharesConcern(actor, shares);
      if (concerns) newRights = true;
      return concerns;
    },
    takeNewRights() {
      const was = newRights;
      newRights = false;
      return was;
    },
    mayRead: ({ readable }) => readable === 'everyone' || readable.some(mayReadObject),
    mayHaveRead({ readable }) {
      if (readable === 'everyone') return true;
      const organizations = actor.kind === 'user' ? actor.organizations : undefined;
      return readable.some(({ organizationId: id }) => id !== undefined && organizations?.has(id));
    },
  };
}
