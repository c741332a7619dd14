/**
 * The changes of all objects, for the streams that keep pages current. A server collects them once for all its streams:
 * it merges the events of one moment, finds out with one query per kind who may see them, and keeps the newest in a
 * ring. A stream reads the ring from its position, and shows its reader the changes of objects that the reader may read.
 *
 * An id of an event names a position in the ring (change-ring.ts), on every server that collected then. An epoch begins when the
 * server starts and whenever changes may have been missed: when it lost its connection to the database, or did not collect because
 * no server had streams. A reader with an id that is not in the ring has a gap: it receives `reset` and reads everything again.
 */
import { AppError, errorText } from '@ropewalk/kit';
import type { Ctx, Services } from '../context/context.ts';
import { findReaders, type ReadableChange, type Reported } from './change-readers.ts';
import { ChangeRing } from './change-ring.ts';
import { ChangeStream } from './change-stream.ts';
import type { NamedEvent, Source } from './follow.ts';

/** Changes of the same object within this time are one event, in ms. */
const MERGE_MS = 100;
/** How long to wait before the next attempt to find readers, in ms. */
const RETRY_MS = 1_000;
/** The maximum number of changes that are kept for streams that come back. */
const MAX_KEPT = 4_096;
/** The maximum number of changes that wait while the database does not answer. */
const MAX_WAITING = 4_096;
/** How often a server with streams announces that to the others, in ms. */
const ANNOUNCE_MS = 5 * 60_000;
/** How long changes are collected after the last stream ended on any server, in ms. */
const COLLECT_MS = 15 * 60_000;
/** The maximum number of streams of one session: each tab of a browser has one. */
const MAX_STREAMS = 10;

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
  return new ServerChangeFeed(services, mostKept, collectMs);
}

class ServerChangeFeed implements ChangeFeed {
  readonly #services: Services;
  readonly #collectMs: number;
  readonly #ring: ChangeRing;
  readonly #off: (() => void)[];
  /** Changes that are not in the ring yet, by their objects. */
  #waiting = new Map<string, Reported>();
  /** The ids of the notifications that reported them. */
  #marks: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #finding = false;
  /** When the last stream ended here, or another server last had one. Undefined when changes are not collected. */
  #lastUsed: number | undefined;
  /** When this server last announced its streams to the others. */
  #announcedAt: number | undefined;
  readonly #streams = new Set<() => void>();
  readonly #streamsOf = new Map<string, number>();

  constructor(services: Services, mostKept: number, collectMs: number) {
    const { events } = services;
    this.#services = services;
    this.#collectMs = collectMs;
    this.#ring = new ChangeRing(mostKept);
    this.#off = [
      events.on('workspace_changed', ({ workspace_id: id }, mark) => this.#note({ kind: 'workspace', id }, mark)),
      events.on('job_posted', ({ job_id: id }, mark) => this.#note({ kind: 'job', id }, mark)),
      events.on('job_changed', ({ job_id: id, logs }, mark) => {
        if (!logs) this.#note({ kind: 'job', id }, mark);
      }),
      events.on('object_changed', (change, mark) => this.#note(change, mark)),
      events.on('app_access_changed', ({ workspace_id, template_id }, mark) => {
        if (workspace_id) this.#note({ kind: 'workspace', id: workspace_id }, mark);
        if (template_id) this.#note({ kind: 'template', id: template_id, permissions: true }, mark);
      }),
      events.on('changes_followed', () => this.#use()),
      events.onResync(() => this.#restart()),
    ];
  }

  source(ctx: Ctx, lastEventId: string | undefined): Source<NamedEvent> {
    const session = ctx.actor.kind === 'user' ? ctx.actor.apiKeyId : '';
    if ((this.#streamsOf.get(session) ?? 0) >= MAX_STREAMS) {
      throw new AppError('rate_limited', 'Too many event streams are open.', {
        detail: `A session can have at most ${MAX_STREAMS}. Close a tab of this server and try again.`,
      });
    }
    const register = (wake: () => void) => this.#register(session, wake);
    return new ChangeStream({ ctx, ring: this.#ring, lastEventId, register });
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const stop of this.#off) stop();
  }

  #register(session: string, wake: () => void): () => void {
    this.#streams.add(wake);
    this.#announceStreams();
    this.#streamsOf.set(session, (this.#streamsOf.get(session) ?? 0) + 1);
    return () => {
      this.#streams.delete(wake);
      this.#lastUsed = this.#services.clock.monotonic();
      const left = this.#streamsOf.get(session)! - 1;
      if (left > 0) this.#streamsOf.set(session, left);
      else this.#streamsOf.delete(session);
    };
  }

  /** From now on changes are collected for a while. */
  #use(): void {
    if (!this.#collects()) this.#begin();
    this.#lastUsed = this.#services.clock.monotonic();
  }

  #announceStreams(): void {
    const now = this.#services.clock.monotonic();
    if (this.#announcedAt !== undefined && now - this.#announcedAt < ANNOUNCE_MS) return;
    this.#announcedAt = now;
    this.#services.events.publishSoon('changes_followed', {});
  }

  #collects(): boolean {
    if (this.#streams.size > 0) return true;
    return this.#lastUsed !== undefined && this.#services.clock.monotonic() - this.#lastUsed < this.#collectMs;
  }

  #note(change: Reported, mark: string): void {
    if (!this.#collects()) {
      // a stream from before must not continue without this change
      if (this.#lastUsed !== undefined) this.#begin();
      this.#lastUsed = undefined;
      return;
    }
    if (this.#streams.size > 0) this.#announceStreams();
    add(this.#waiting, change);
    if (this.#marks.at(-1) !== mark) this.#marks.push(mark);
    if (this.#waiting.size > MAX_WAITING) this.#restart();
    else this.#appendLater(MERGE_MS);
  }

  #appendLater(ms: number): void {
    if (this.#finding) return;
    this.#timer ??= setTimeout(() => void this.#append(), ms).unref();
  }

  /** Moves the waiting changes to the ring. */
  async #append(): Promise<void> {
    const { sql, log } = this.#services;
    this.#timer = undefined;
    this.#finding = true;
    const began = this.#ring.epoch;
    const reported = this.#waiting;
    this.#waiting = new Map();
    const marks = this.#marks;
    this.#marks = [];
    let retry = false;
    try {
      const found = await findReaders(sql, [...reported.values()]);
      if (this.#ring.epoch === began) this.#keep(found, marks);
    } catch (err) {
      log.warn('could not find out who may see changes', { err: errorText(err), count: reported.size });
      retry = true;
      if (this.#ring.epoch === began) {
        for (const change of this.#waiting.values()) add(reported, change);
        this.#waiting = reported;
        this.#marks = [...marks, ...this.#marks];
      }
    } finally {
      this.#finding = false;
    }
    if (this.#waiting.size > 0) this.#appendLater(retry ? RETRY_MS : MERGE_MS);
  }

  #keep(found: readonly ReadableChange[], marks: readonly string[]): void {
    this.#ring.append(found, marks);
    this.#wakeAll();
  }

  /** Begins an epoch and gives every open stream a gap. */
  #restart(): void {
    this.#begin();
    this.#wakeAll();
  }

  #begin(): void {
    this.#ring.restart();
    this.#waiting = new Map();
    this.#marks = [];
  }

  #wakeAll(): void {
    for (const wake of this.#streams) wake();
  }
}

/** Adds a change, merged with an earlier one of the same object. */
function add(to: Map<string, Reported>, change: Reported): void {
  const place = change.kind === 'organization_member' ? change.organization_id : '';
  const key = `${change.kind} ${change.id} ${place}`;
  to.set(key, to.get(key)?.permissions ? { ...change, permissions: true } : change);
}
