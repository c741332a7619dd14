/**
 * The changes of all objects, for the streams that keep pages current. A server collects them once for all its streams:
 * it merges the events of one moment, finds out with one query per kind who may see them, and keeps the newest in a
 * ring. A stream reads the ring from its position, and shows its reader the changes of objects that the reader may read.
 *
 * Ids of events have the form `EPOCH-NUMBER`. An epoch begins when the server starts and whenever changes may have been
 * missed: when it lost its connection to the database, or did not collect because there were no streams. A reader with
 * an id of another epoch, or one that has left the ring, has a gap: it receives `reset` and reads everything again.
 */
import { randomBytes } from 'node:crypto';
import type { Change, ChangeHello } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import { rightsOf } from '../../authz/actor.ts';
import { type AuthzObject, may } from '../../authz/authorize.ts';
import type { Ctx, Services } from '../context/context.ts';
import { findReaders, type ReadableChange, type Reported } from './change-readers.ts';
import type { NamedEvent, News, Source } from './follow.ts';

/** Changes of the same object within this time are one event, in ms. */
const MERGE_MS = 100;
/** How long to wait before the next attempt to find readers, in ms. */
const RETRY_MS = 1_000;
/** The maximum number of changes that are kept for streams that come back. */
const MAX_KEPT = 4_096;
/** The maximum number of changes that wait while the database does not answer. */
const MAX_WAITING = 4_096;
/** How long changes are collected after the last stream ended, in ms. */
const COLLECT_MS = 15 * 60_000;
/** After this part of the ring without a visible change, a reader gets a new id, so that it can resume. */
const MARK_PART = 1 / 8;
/** The maximum number of streams of one session: each tab of a browser has one. */
const MAX_STREAMS = 10;

interface Entry {
  number: number;
  event: NamedEvent;
  found: ReadableChange;
}

export interface ChangeFeed {
  /**
   * The changes that the actor may read, after the event with this id or from now on.
   * @throws AppError `rate_limited` if the session has too many streams
   */
  source(ctx: Ctx, lastEventId: string | undefined): Source<NamedEvent>;
  close(): void;
}

export interface ChangeFeedOptions {
  mostKept?: number;
  collectMs?: number;
}

/** Creates the feed of this server. */
export function createChangeFeed(
  services: Services,
  { mostKept = MAX_KEPT, collectMs = COLLECT_MS }: ChangeFeedOptions = {},
): ChangeFeed {
  const { sql, events, clock, log, version } = services;
  let epoch = '';
  /** The number of the newest change. */
  let last = 0;
  let kept: Entry[] = [];
  let waiting = new Map<string, Reported>();
  let timer: NodeJS.Timeout | undefined;
  let finding = false;
  /** When the last stream ended. Undefined when changes are not collected. */
  let lastUsed: number | undefined;
  const streams = new Set<() => void>();
  const streamsOf = new Map<string, number>();

  const wakeAll = () => {
    for (const wake of streams) wake();
  };
  const begin = () => {
    epoch = randomBytes(6).toString('hex');
    kept = [];
    waiting = new Map();
  };
  begin();
  const restart = () => {
    begin();
    wakeAll();
  };

  const collects = () => streams.size > 0 || (lastUsed !== undefined && clock.monotonic() - lastUsed < collectMs);

  const note = (change: Reported) => {
    if (!collects()) {
      // a stream from before must not continue without this change
      if (lastUsed !== undefined) begin();
      lastUsed = undefined;
      return;
    }
    add(waiting, change);
    if (waiting.size > MAX_WAITING) return restart();
    later(MERGE_MS);
  };

  const later = (ms: number) => {
    if (finding) return;
    timer ??= setTimeout(() => void append(), ms).unref();
  };

  /** Moves the waiting changes to the ring. */
  async function append(): Promise<void> {
    timer = undefined;
    finding = true;
    const began = epoch;
    const reported = waiting;
    waiting = new Map();
    let retry = false;
    try {
      const found = await findReaders(sql, [...reported.values()]);
      if (epoch === began) keep(found);
    } catch (err) {
      log.warn('could not find out who may see changes', { err: errorText(err), count: reported.size });
      retry = true;
      if (epoch === began) {
        for (const change of waiting.values()) add(reported, change);
        waiting = reported;
      }
    } finally {
      finding = false;
    }
    if (waiting.size > 0) later(retry ? RETRY_MS : MERGE_MS);
  }

  function keep(found: readonly ReadableChange[]): void {
    for (const each of found) {
      last += 1;
      const data = JSON.stringify(each.change satisfies Change);
      kept.push({ number: last, event: { event: 'change', id: `${epoch}-${last}`, data }, found: each });
    }
    if (kept.length > mostKept) kept = kept.slice(-mostKept);
    wakeAll();
  }

  const off = [
    events.on('workspace_changed', ({ workspace_id: id }) => note({ kind: 'workspace', id })),
    events.on('job_posted', ({ job_id: id }) => note({ kind: 'job', id })),
    events.on('job_changed', ({ job_id: id, logs }) => {
      if (!logs) note({ kind: 'job', id });
    }),
    events.on('object_changed', note),
    events.on('app_access_changed', ({ workspace_id, template_id }) => {
      if (workspace_id) note({ kind: 'workspace', id: workspace_id });
      if (template_id) note({ kind: 'template', id: template_id, permissions: true });
    }),
    events.onResync(restart),
  ];

  /** The number of the change with this id. Undefined if changes after it are not kept. */
  function positionOf(id: string): number | undefined {
    const [of, digits = ''] = id.split('-');
    const number = Number(digits);
    if (of !== epoch || !/^\d{1,15}$/.test(digits) || number > last) return undefined;
    return number >= last - kept.length ? number : undefined;
  }

  function source(ctx: Ctx, lastEventId: string | undefined): Source<NamedEvent> {
    const session = ctx.actor.kind === 'user' ? ctx.actor.apiKeyId : '';
    if ((streamsOf.get(session) ?? 0) >= MAX_STREAMS) {
      throw new AppError('rate_limited', 'Too many event streams are open.', {
        detail: `A session can have at most ${MAX_STREAMS}. Close a tab of this server and try again.`,
      });
    }
    const reader = createReader(ctx);
    let wake = () => {};
    let greeted = false;
    /** The epoch and number up to which the reader is current. */
    let at = { epoch, number: last };
    let marked = last;
    const message = (event: string, data: unknown): NamedEvent => {
      marked = at.number;
      return { event, id: `${at.epoch}-${at.number}`, data: JSON.stringify(data) };
    };
    const reset = (): NamedEvent => {
      at = { epoch, number: last };
      return message('reset', {});
    };
    const greet = (): NamedEvent[] => {
      const position = lastEventId === undefined ? undefined : positionOf(lastEventId);
      const resumed = position !== undefined;
      at = { epoch, number: position ?? last };
      const hello = message('hello', { version, resumed } satisfies ChangeHello);
      return resumed || lastEventId === undefined ? [hello] : [hello, reset()];
    };
    return {
      permission(now) {
        reader.settle(now);
        wake();
      },
      subscribe(given) {
        wake = given;
        streams.add(wake);
        streamsOf.set(session, (streamsOf.get(session) ?? 0) + 1);
        const offRevoked = events.on('revoked', ({ user_ids = [] }) => reader.doubt(user_ids));
        return () => {
          offRevoked();
          streams.delete(wake);
          lastUsed = clock.monotonic();
          const left = streamsOf.get(session)! - 1;
          if (left > 0) streamsOf.set(session, left);
          else streamsOf.delete(session);
        };
      },
      async next(): Promise<News<NamedEvent>> {
        const messages = greeted ? [] : greet();
        greeted = true;
        // the reader's roles are being read again
        if (!reader.settled()) return { messages, more: false, end: false };
        const newRights = reader.takeNewRights();
        if (newRights || at.epoch !== epoch || at.number < last - kept.length) {
          messages.push(reset());
          return { messages, more: false, end: false };
        }
        const news = kept.slice(kept.length - (last - at.number));
        at.number = last;
        for (const { number, event, found } of news) {
          if (reader.mayRead(found)) {
            messages.push(event);
            marked = number;
          } else if (found.permissions && reader.mayHaveRead(found)) {
            return { messages: [...messages, reset()], more: false, end: false };
          }
        }
        if (last - marked >= mostKept * MARK_PART) messages.push(message('ping', {}));
        return { messages, more: false, end: false };
      },
    };
  }

  return {
    source,
    close() {
      clearTimeout(timer);
      for (const stop of off) stop();
    },
  };
}

/** Adds a change, merged with an earlier one of the same object. */
function add(to: Map<string, Reported>, change: Reported): void {
  const place = change.kind === 'organization_member' ? change.organization_id : '';
  const key = `${change.kind} ${change.id} ${place}`;
  to.set(key, to.get(key)?.permissions ? { ...change, permissions: true } : change);
}

interface Reader {
  /** Whether the roles are known to be current. */
  settled(): boolean;
  /** Takes the current roles. */
  settle(now: Pick<Ctx, 'actor'>): void;
  /** Holds changes back until the roles are read again, if one of these users is the reader. */
  doubt(userIds: readonly string[]): void;
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
    // a list of permitted users belongs to one object
    if (object.acl) return may(actor, 'read', object);
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
