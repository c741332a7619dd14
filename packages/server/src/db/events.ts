import { errorText, type Logger } from '@ropewalk/kit';
import { collect, type Db, type Sql } from './connect.ts';

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
  agent_reinit: { workspace_id: string; reason: string };
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
   * An object was created, changed or deleted. Workspaces and jobs have their own events. The owner is that of a
   * daemon that runs the jobs of one person.
   */
  object_changed: { kind: ObjectKind; id: string; organization_id?: string; owner_id?: string };
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

type Listener<K extends EventName> = (payload: EventMap[K]) => void;

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

/** An event that each server sends only to itself. */
const BEAT = 'beat';
const BEAT_MS = 2_500;
/** Upstream counts notifications from this size on separately, in bytes. */
const LARGE_BYTES = 7_600;

export async function createEvents(sql: Sql, log: Logger, { beatMs = BEAT_MS } = {}): Promise<Events> {
  const listeners = new Map<EventName, Set<(payload: never) => void>>();
  const publishing = new Map<EventName, Set<(payload: never) => void>>();
  const resync = new Set<() => void>();
  const counts: EventCounts = {
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
  const bytesOf = (texts: readonly string[]) => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  /** Sends and counts notifications. */
  const send = async (db: Db, texts: string[]): Promise<void> => {
    try {
      await notify(db, texts);
    } catch (err) {
      counts.unpublished += texts.length;
      throw err;
    }
    counts.published += texts.length;
    counts.publishedBytes += bytesOf(texts);
  };
  let first = true;
  const call = (run: () => void) => {
    try {
      run();
    } catch (err) {
      log.error('an event listener failed', { err: errorText(err) });
    }
  };
  const add = <K extends EventName>(to: typeof listeners, name: K, listener: Listener<K>) => {
    const set = to.get(name) ?? new Set();
    to.set(name, set);
    set.add(listener as (payload: never) => void);
    return () => void set.delete(listener as (payload: never) => void);
  };
  let soon = new Set<string>();
  let sending: Promise<void> | undefined;
  async function sendSoon(): Promise<void> {
    while (soon.size > 0) {
      const texts = [...soon];
      soon = new Set();
      try {
        await send(sql, texts);
      } catch (err) {
        log.warn('could not publish events', { err: errorText(err), count: texts.length });
      }
    }
    sending = undefined;
  }
  // a connection can be open without delivering anything: half-open, or from a pooler that does not listen
  const self = crypto.randomUUID();
  let undelivered = false;
  let wasUndelivered = false;
  let beating = false;
  let sentAt = 0;
  let sendSeconds: number | undefined;
  let receiveSeconds: number | undefined;
  const secondsSince = (start: number) => (performance.now() - start) / 1_000;
  const beat = async () => {
    if (beating) return;
    beating = true;
    try {
      // after a pause of this process, the notification may have arrived without being read
      if (undelivered) await new Promise(setImmediate);
      if (undelivered) {
        counts.unmeasured++;
        for (const listener of resync) call(listener);
      }
      if (undelivered !== wasUndelivered)
        log.warn(undelivered ? 'notifications do not arrive' : 'notifications arrive again');
      wasUndelivered = undelivered;
      // set first: the notification may arrive before the statement ends
      undelivered = true;
      counts.measures++;
      sentAt = performance.now();
      await sql`SELECT pg_notify(${CHANNEL}, ${JSON.stringify({ n: BEAT, p: self })})`;
      sendSeconds = secondsSince(sentAt);
    } catch (err) {
      undelivered = false;
      counts.unmeasured++;
      // the database is unavailable, and onResync runs when it is back
      log.debug('could not send the test notification', { err: errorText(err) });
    } finally {
      beating = false;
    }
  };
  const subscription = await sql.listen(
    CHANNEL,
    (text) => {
      const { n, p } = JSON.parse(text) as { n: EventName | typeof BEAT; p: never };
      if (n === BEAT) {
        if (p === self) {
          undelivered = false;
          receiveSeconds = secondsSince(sentAt);
        }
        return;
      }
      const bytes = Buffer.byteLength(text);
      counts.received++;
      counts.receivedBytes += bytes;
      if (bytes >= LARGE_BYTES) counts.receivedLarge++;
      for (const listener of listeners.get(n) ?? []) call(() => listener(p));
    },
    () => {
      if (!first) {
        counts.disconnections++;
        for (const listener of resync) call(listener);
      }
      first = false;
    },
  );
  const timer = setInterval(() => void beat(), beatMs).unref();
  return {
    async publish(db, name, payload) {
      for (const listener of publishing.get(name) ?? []) call(() => listener(payload as never));
      await collect(db, send, notifications(name, payload));
    },
    publishSoon(name, payload) {
      for (const listener of publishing.get(name) ?? []) call(() => listener(payload as never));
      for (const text of notifications(name, payload)) soon.add(text);
      sending ??= Promise.resolve().then(sendSoon);
    },
    on(name, listener) {
      counts.subscribed++;
      return add(listeners, name, listener);
    },
    onPublish: (name, listener) => add(publishing, name, listener),
    onResync(listener) {
      resync.add(listener);
      return () => resync.delete(listener);
    },
    state() {
      const sizes = [...listeners.values()].map(({ size }) => size).filter((size) => size > 0);
      return {
        counts,
        connected: !wasUndelivered,
        names: sizes.length,
        subscribers: sizes.reduce((sum, size) => sum + size, 0),
        sendSeconds,
        receiveSeconds,
      };
    },
    async close() {
      clearInterval(timer);
      await sending;
      await subscription.unlisten();
    },
  };
}
