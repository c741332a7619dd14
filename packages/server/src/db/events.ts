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
  workspace_changed: { workspace_id: string; owner_id?: string };
  /** An agent's logs grew. */
  agent_logs: { agent_id: string };
  /** A newer connection of this agent was taken; older ones end. */
  agent_connected: { agent_id: string; number: number };
  /** Somebody looks at this agent's metadata; said again while he does. */
  agent_watched: { agent_id: string };
  /** New metadata of these agents. */
  agent_metadata: { agent_ids: string[] };
  /** Tokens, keys or users that may do nothing any more. */
  revoked: { api_key_ids?: string[]; user_ids?: string[]; provisioner_key_ids?: string[] };
}
export type EventName = keyof EventMap;

type Listener<K extends EventName> = (payload: EventMap[K]) => void;

export interface Events {
  /** Sent when `db`'s transaction commits (at once outside one), to this and every other server. */
  publish<K extends EventName>(db: Db, name: K, payload: EventMap[K]): Promise<void>;
  /** Several of one name, in one statement. */
  publishAll<K extends EventName>(db: Db, name: K, payloads: EventMap[K][]): Promise<void>;
  on<K extends EventName>(name: K, listener: Listener<K>): () => void;
  /** Called when this server publishes, before the commit: for caches that may forget too much. */
  onPublish<K extends EventName>(name: K, listener: Listener<K>): () => void;
  /** Called after the listening connection was lost and is back: anything may have been missed. */
  onResync(listener: () => void): () => void;
  close(): Promise<void>;
}

export async function createEvents(sql: Sql, log: Logger): Promise<Events> {
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
  const subscription = await sql.listen(
    CHANNEL,
    (text) => {
      const { n, p } = JSON.parse(text) as { n: EventName; p: never };
      for (const listener of listeners.get(n) ?? []) call(() => listener(p));
    },
    () => {
      if (!first) for (const listener of resync) call(listener);
      first = false;
    },
  );
  return {
    async publish(db, name, payload) {
      for (const listener of publishing.get(name) ?? []) call(() => listener(payload as never));
      await (db as Sql)`SELECT pg_notify(${CHANNEL}, ${JSON.stringify({ n: name, p: payload })})`;
    },
    async publishAll(db, name, payloads) {
      if (payloads.length === 0) return;
      for (const listener of publishing.get(name) ?? [])
        for (const payload of payloads) call(() => listener(payload as never));
      const texts = payloads.map((payload) => JSON.stringify({ n: name, p: payload }));
      await (db as Sql)`SELECT pg_notify(${CHANNEL}, text) FROM unnest(${texts}::text[]) AS text`;
    },
    on: (name, listener) => add(listeners, name, listener),
    onPublish: (name, listener) => add(publishing, name, listener),
    onResync(listener) {
      resync.add(listener);
      return () => resync.delete(listener);
    },
    close: () => subscription.unlisten(),
  };
}
