import { randomBytes } from 'node:crypto';
import { errorText, type Logger } from '@ropewalk/kit';
import { collect, type Db, type Sql } from './connect.ts';
import { BEAT, Heartbeat } from './heartbeat.ts';
import { unflushed } from './unflushed.ts';

const CHANNEL = 'platform_events';

/**
 * The events that servers send each other. An event contains only ids: the rows are authoritative, and a listener reads
 * them again. Every subscriber must also check on a timer, since a notification can be lost.
 */
export interface EventMap {
  /** A job became pending. */
  job_posted: {
    job_id: string;
    organization_id: string;
    tags: Record<string, string>;
    /** Absent: terraform. */
    provisioner?: string;
    /** Absent: any version of Terraform. */
    terraform_range?: string;
  };
  /** A job's logs or status changed. With `logs`, only its logs. */
  job_changed: { job_id: string; end?: boolean; logs?: boolean };
  /** Someone requested the cancellation of a job. */
  job_canceled: { job_id: string; force: boolean };
  /** A workspace, its build or one of its agents changed. With `restarting`, a start is to follow its stop, which may have ended. */
  workspace_changed: { workspace_id: string; owner_id?: string; agents_outdated?: boolean; restarting?: boolean };
  /** An agent's logs grew. */
  agent_logs: { agent_id: string };
  /** A newer connection of this agent was accepted. Older ones end. */
  agent_connected: { agent_id: string; number: number };
  /** The agents of a workspace must reinitialize. */
  /** `owner_id` is absent in events of servers before 0.2. */
  agent_reinit: { workspace_id: string; owner_id?: string; reason: string };
  /** The secrets of a person for their workspaces changed. */
  user_secrets_changed: { user_id: string };
  /** Someone reads this agent's metadata. Repeated while they do. */
  agent_watched: { agent_id: string };
  /** New metadata of these agents. */
  agent_metadata: { agent_ids: string[] };
  /**
   * The permission to use a template, or to open apps and ports of a workspace or of all workspaces of a template,
   * changed.
   */
  app_access_changed: { workspace_id?: string; template_id?: string };
  /**
   * Workspaces were shared with these people and groups, or taken back from them. The group Everyone has its
   * organization's id.
   */
  shares_changed: { user_ids?: string[]; group_ids?: string[] };
  /**
   * An object was created, changed or deleted. Workspaces and jobs have their own events. The owner is that of a
   * daemon that runs the jobs of one person.
   */
  object_changed: { kind: ObjectKind; id: string; organization_id?: string; owner_id?: string };
  /** Some server has streams of changes, and the others collect changes too, so that such a stream can continue there. */
  changes_followed: Record<string, never>;
  /** A workspace proxy was created, changed or deleted, or one of its processes registered or ended. */
  workspace_proxies_changed: Record<string, never>;
  /** A server checked a password or a code. `counts`: see app/sign-in/sign-in-limit.ts. */
  sign_in_attempted: {
    server: string;
    number: number;
    limit: string;
    counts: ['caller' | 'account' | 'address', string][];
    right: boolean;
  };
  /** A sign-in at a provider was completed. `state`: its digest. */
  sign_in_completed: { state: string };
  /** Messages wait to be sent. */
  notifications_queued: Record<string, never>;
  /** Tokens, keys or users that lost access. */
  revoked: { api_key_ids?: string[]; user_ids?: string[]; provisioner_key_ids?: string[] };
}
export type EventName = keyof EventMap;
export type ObjectKind =
  | 'template'
  | 'template_version'
  | 'provisioner'
  | 'provisioner_key'
  | 'organization'
  | 'organization_member'
  | 'group'
  | 'user'
  | 'deployment'
  | 'notification';

/** The largest notification, in bytes. PostgreSQL's limit is 8,000. */
const MAX_BYTES = 7_900;
const IDS_AT_ONCE = 100;

/** Converts an event to notifications. A long one is split: each part has some of the ids of one list. */
function notifications<K extends EventName>(name: K, payload: EventMap[K]): string[] {
  const text = JSON.stringify({ n: name, p: payload });
  if (Buffer.byteLength(text) <= MAX_BYTES) return [text];
  return Object.entries(payload).flatMap(([key, ids]) => {
    const parts: string[] = [];
    for (let at = 0; Array.isArray(ids) && at < ids.length; at += IDS_AT_ONCE) {
      parts.push(JSON.stringify({ n: name, p: { [key]: ids.slice(at, at + IDS_AT_ONCE) } }));
    }
    return parts;
  });
}

const notify = (db: Db, texts: string[]) =>
  (db as Sql)`SELECT pg_notify(${CHANNEL}, text) FROM unnest(${texts}::text[]) AS text`;

/** Without waiting for the disk: a crash of the database loses the notifications that it has stored, too. */
const notifyUnflushed = (sql: Sql, texts: string[]) =>
  sql`SELECT pg_notify(${CHANNEL}, text) FROM unnest(${texts}::text[]) AS text WHERE ${unflushed(sql)}`;

/** `id` names the notification. All servers receive the same notifications in the same order. Empty for `onPublish`. */
type Listener<K extends EventName> = (payload: EventMap[K], id: string) => void;

/** What this server published and received since its start. */
export interface EventCounts {
  published: number;
  unpublished: number;
  publishedBytes: number;
  received: number;
  /** Those of the received that are near PostgreSQL's limit. */
  receivedLarge: number;
  receivedBytes: number;
  /** How often a part of the server subscribed. */
  subscribed: number;
  /** How often the listening connection was lost and restored. */
  disconnections: number;
  /** How often this server timed a notification to itself, and how often that failed or did not arrive. */
  measures: number;
  unmeasured: number;
}

/** The state of this server's events right now. */
export interface EventState {
  counts: Readonly<EventCounts>;
  /** Whether notifications arrive. */
  connected: boolean;
  /** Event names with subscribers, and their subscribers. */
  names: number;
  subscribers: number;
  /** Of the last notification to itself, in seconds: until the database accepted it, and until it arrived. */
  sendSeconds: number | undefined;
  receiveSeconds: number | undefined;
}

export interface Events {
  /**
   * Sends the event to this and every other server when `db`'s transaction commits, or immediately outside a transaction.
   */
  publish<K extends EventName>(db: Db, name: K, payload: EventMap[K]): Promise<void>;
  /**
   * Sends the event outside of any transaction, together with concurrent events: PostgreSQL processes commits with a
   * notification one at a time. Never fails: listeners find lost events on their timers.
   */
  publishSoon<K extends EventName>(name: K, payload: EventMap[K]): void;
  on<K extends EventName>(name: K, listener: Listener<K>): () => void;
  /** Called when this server publishes, before the commit: for caches that may drop too much. */
  onPublish<K extends EventName>(name: K, listener: Listener<K>): () => void;
  /**
   * Called when events may have been missed: after the listening connection was restored, and repeatedly, at most 5 s
   * apart, while notifications do not arrive on an open connection.
   */
  onResync(listener: () => void): () => void;
  state(): EventState;
  close(): Promise<void>;
}

const BEAT_MS = 2_500;
/** Upstream counts notifications from this size on separately, in bytes. */
const LARGE_BYTES = 7_600;

export async function createEvents(sql: Sql, log: Logger, { beatMs = BEAT_MS } = {}): Promise<Events> {
  const events = new DatabaseEvents(sql, log);
  await events.listen(beatMs);
  return events;
}

type AnyListener = (payload: never, id: string) => void;
type Listeners = Map<EventName, Set<AnyListener>>;

class DatabaseEvents implements Events {
  readonly #sql: Sql;
  readonly #log: Logger;
  readonly #listeners: Listeners = new Map();
  readonly #publishing: Listeners = new Map();
  readonly #resync = new Set<() => void>();
  readonly #heartbeat: Heartbeat;
  readonly #counts: EventCounts = {
    published: 0,
    unpublished: 0,
    publishedBytes: 0,
    received: 0,
    receivedLarge: 0,
    receivedBytes: 0,
    subscribed: 0,
    disconnections: 0,
    measures: 0,
    unmeasured: 0,
  };
  #subscription: { unlisten(): Promise<void> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Notifications of `publishSoon` that wait for the running statement. */
  #soon = new Set<string>();
  #sending: Promise<void> | undefined;

  constructor(sql: Sql, log: Logger) {
    this.#sql = sql;
    this.#log = log;
    this.#heartbeat = new Heartbeat({
      send: (text) => sql`SELECT pg_notify(${CHANNEL}, ${text})`,
      onMissing: () => this.#callResync(),
      counts: this.#counts,
      log,
    });
  }

  /** Call it once, before everything else. */
  async listen(beatMs: number): Promise<void> {
    let isFirst = true;
    this.#subscription = await this.#sql.listen(
      CHANNEL,
      (text) => this.#receive(text),
      () => {
        if (!isFirst) {
          this.#counts.disconnections++;
          this.#callResync();
        }
        isFirst = false;
      },
    );
    this.#timer = setInterval(() => void this.#heartbeat.beat(), beatMs).unref();
  }

  async publish<K extends EventName>(db: Db, name: K, payload: EventMap[K]): Promise<void> {
    this.#callAll(this.#publishing, name, payload, '');
    await collect(db, this.#send, notifications(name, payload));
  }

  publishSoon<K extends EventName>(name: K, payload: EventMap[K]): void {
    this.#callAll(this.#publishing, name, payload, '');
    for (const text of notifications(name, payload)) this.#soon.add(text);
    this.#sending ??= Promise.resolve().then(() => this.#sendSoon());
  }

  on<K extends EventName>(name: K, listener: Listener<K>): () => void {
    this.#counts.subscribed++;
    return add(this.#listeners, name, listener);
  }

  onPublish<K extends EventName>(name: K, listener: Listener<K>): () => void {
    return add(this.#publishing, name, listener);
  }

  onResync(listener: () => void): () => void {
    this.#resync.add(listener);
    return () => this.#resync.delete(listener);
  }

  state(): EventState {
    const sizes = [...this.#listeners.values()].map(({ size }) => size).filter((size) => size > 0);
    return {
      counts: this.#counts,
      connected: this.#heartbeat.arrives,
      names: sizes.length,
      subscribers: sizes.reduce((sum, size) => sum + size, 0),
      sendSeconds: this.#heartbeat.sendSeconds,
      receiveSeconds: this.#heartbeat.receiveSeconds,
    };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sending;
    await this.#subscription?.unlisten();
  }

  /** Sends and counts notifications. One function for all calls, because `collect` groups by it. */
  readonly #send = (db: Db, unnumbered: string[]): Promise<void> =>
    // the same event twice in a transaction is one
    this.#count([...new Set(unnumbered)].map(withId), (texts) => notify(db, texts));

  async #count(texts: string[], send: (texts: string[]) => Promise<unknown>): Promise<void> {
    try {
      await send(texts);
    } catch (err) {
      this.#counts.unpublished += texts.length;
      throw err;
    }
    this.#counts.published += texts.length;
    this.#counts.publishedBytes += bytesOf(texts);
  }

  async #sendSoon(): Promise<void> {
    while (this.#soon.size > 0) {
      const texts = [...this.#soon];
      this.#soon = new Set();
      try {
        await this.#count(texts.map(withId), (numbered) => notifyUnflushed(this.#sql, numbered));
      } catch (err) {
        this.#log.warn('could not publish events', { err: errorText(err), count: texts.length });
      }
    }
    this.#sending = undefined;
  }

  #receive(text: string): void {
    const { n, p, i = '' } = JSON.parse(text) as { n: EventName | typeof BEAT; p: never; i?: string };
    if (n === BEAT) {
      this.#heartbeat.received(p);
      return;
    }
    const bytes = Buffer.byteLength(text);
    this.#counts.received++;
    this.#counts.receivedBytes += bytes;
    if (bytes >= LARGE_BYTES) this.#counts.receivedLarge++;
    this.#callAll(this.#listeners, n, p, i);
  }

  #callAll(listeners: Listeners, name: EventName, payload: unknown, id: string): void {
    for (const listener of listeners.get(name) ?? []) this.#call(listener, payload, id);
  }

  #callResync(): void {
    for (const listener of this.#resync) this.#call(listener, undefined, '');
  }

  #call(listener: AnyListener, payload: unknown, id: string): void {
    try {
      listener(payload as never, id);
    } catch (err) {
      this.#log.error('an event listener failed', { err: errorText(err) });
    }
  }
}

function add<K extends EventName>(to: Listeners, name: K, listener: Listener<K>): () => void {
  const set = to.get(name) ?? new Set();
  to.set(name, set);
  set.add(listener as AnyListener);
  return () => void set.delete(listener as AnyListener);
}

/** Adds an id to a notification. A server before this one's version ignores it. */
const withId = (text: string) => `${text.slice(0, -1)},"i":"${randomBytes(8).toString('hex')}"}`;

function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}
