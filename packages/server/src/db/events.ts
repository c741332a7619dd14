import { errorText, type Logger } from '@platform/kit';
import type { Db, Sql } from './connect.ts';

const CHANNEL = 'platform_events';

/**
 * What wakes whom. An event carries ids only: the rows are the truth, and a listener reads them again. Every subscriber
 * must also look on a timer, since a notification can be lost.
 */
export interface EventMap {
  /** A job became pending. */
  job_posted: { job_id: string; organization_id: string; tags: Record<string, string> };
  /** A job's logs or status changed. */
  job_changed: { job_id: string; end?: boolean };
  /** A cancel was asked for. */
  job_canceled: { job_id: string; force: boolean };
  /** A workspace, its build or one of its agents changed. */
  workspace_changed: { workspace_id: string; owner_id?: string; agents_outdated?: boolean };
  /** An agent's logs grew. */
  agent_logs: { agent_id: string };
  /** A newer connection of this agent was taken; older ones end. */
  agent_connected: { agent_id: string; number: number };
  /** The agents of a workspace start over. */
  agent_reinit: { workspace_id: string; reason: string };
  /** Somebody looks at this agent's metadata; said again while he does. */
  agent_watched: { agent_id: string };
  /** New metadata of these agents. */
  agent_metadata: { agent_ids: string[] };
  /** Who may use a template, or open the apps and ports of a workspace or of all of a template, changed. */
  app_access_changed: { workspace_id?: string; template_id?: string };
  /** Tokens, keys or users that may do nothing any more. */
  revoked: { api_key_ids?: string[]; user_ids?: string[]; provisioner_key_ids?: string[] };
}
export type EventName = keyof EventMap;

/** A notification may have 8,000 bytes. */
const MOST_BYTES = 7_900;
const IDS_AT_ONCE = 100;

/** An event as notifications: several where one would be too long, each with some of the ids of one list. */
function notifications<K extends EventName>(name: K, payload: EventMap[K]): string[] {
  const text = JSON.stringify({ n: name, p: payload });
  if (Buffer.byteLength(text) <= MOST_BYTES) return [text];
  return Object.entries(payload).flatMap(([key, ids]) => {
    const parts: string[] = [];
    for (let at = 0; Array.isArray(ids) && at < ids.length; at += IDS_AT_ONCE) {
      parts.push(JSON.stringify({ n: name, p: { [key]: ids.slice(at, at + IDS_AT_ONCE) } }));
    }
    return parts;
  });
}

type Listener<K extends EventName> = (payload: EventMap[K]) => void;

export interface Events {
  /** Sent when `db`'s transaction commits (at once outside one), to this and every other server. */
  publish<K extends EventName>(db: Db, name: K, payload: EventMap[K]): Promise<void>;
  /**
   * Not part of a transaction, and together with what others publish meanwhile: PostgreSQL takes notifications one
   * commit at a time. Never fails: what can't be sent is found by the timers of those who wait for it.
   */
  publishSoon<K extends EventName>(name: K, payload: EventMap[K]): void;
  on<K extends EventName>(name: K, listener: Listener<K>): () => void;
  /** Called when this server publishes, before the commit: for caches that may forget too much. */
  onPublish<K extends EventName>(name: K, listener: Listener<K>): () => void;
  /**
   * Called where anything may have been missed: after the listening connection was lost and is back, and again and again,
   * at most 5 s apart, while notifications do not arrive though it is there.
   */
  onResync(listener: () => void): () => void;
  close(): Promise<void>;
}

/** What this server says to itself; not an event of anybody. */
const BEAT = 'beat';
const BEAT_MS = 2_500;

export async function createEvents(sql: Sql, log: Logger, { beatMs = BEAT_MS } = {}): Promise<Events> {
  const listeners = new Map<EventName, Set<(payload: never) => void>>();
  const publishing = new Map<EventName, Set<(payload: never) => void>>();
  const resync = new Set<() => void>();
  let first = true;
  const call = (run: () => void) => {
    try {
      run();
    } catch (err) {
      log.error('event listener failed', { err: errorText(err) });
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
        await sql`SELECT pg_notify(${CHANNEL}, text) FROM unnest(${texts}::text[]) AS text`;
      } catch (err) {
        log.warn('could not publish events', { err: errorText(err), count: texts.length });
      }
    }
    sending = undefined;
  }
  // a connection may be there and nothing come over it: half-open, or a pooler's that does not listen
  const self = crypto.randomUUID();
  let unheard = false;
  let deaf = false;
  let beating = false;
  const beat = async () => {
    if (beating) return;
    beating = true;
    try {
      if (unheard) for (const listener of resync) call(listener);
      if (unheard !== deaf) log.warn(unheard ? 'notifications do not arrive' : 'notifications arrive again');
      deaf = unheard;
      // before it is sent: it may be heard before the statement's end is
      unheard = true;
      await sql`SELECT pg_notify(${CHANNEL}, ${JSON.stringify({ n: BEAT, p: self })})`;
    } catch (err) {
      unheard = false;
      // the database is away, which is told when it is back
      log.debug('could not notify itself', { err: errorText(err) });
    } finally {
      beating = false;
    }
  };
  const subscription = await sql.listen(
    CHANNEL,
    (text) => {
      const { n, p } = JSON.parse(text) as { n: EventName | typeof BEAT; p: never };
      if (n === BEAT) {
        if (p === self) unheard = false;
        return;
      }
      for (const listener of listeners.get(n) ?? []) call(() => listener(p));
    },
    () => {
      if (!first) for (const listener of resync) call(listener);
      first = false;
    },
  );
  const timer = setInterval(() => void beat(), beatMs).unref();
  return {
    async publish(db, name, payload) {
      for (const listener of publishing.get(name) ?? []) call(() => listener(payload as never));
      const texts = notifications(name, payload);
      await (db as Sql)`SELECT pg_notify(${CHANNEL}, text) FROM unnest(${texts}::text[]) AS text`;
    },
    publishSoon(name, payload) {
      for (const listener of publishing.get(name) ?? []) call(() => listener(payload as never));
      for (const text of notifications(name, payload)) soon.add(text);
      sending ??= Promise.resolve().then(sendSoon);
    },
    on: (name, listener) => add(listeners, name, listener),
    onPublish: (name, listener) => add(publishing, name, listener),
    onResync(listener) {
      resync.add(listener);
      return () => resync.delete(listener);
    },
    async close() {
      clearInterval(timer);
      await sending;
      await subscription.unlisten();
    },
  };
}
