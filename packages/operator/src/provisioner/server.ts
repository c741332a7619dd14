// What the operator knows about each server that provisioners join: its daemons, its queue and its provisioner keys. One
// poll per server and organization serves all provisioners there, and wakes them when something has changed. The server's
// stream of changes brings the next poll forward.
import { isDeepStrictEqual } from 'node:util';
import { ApiError, type Client, createClient, UnreachableError } from '@ropewalk/client';
import { nodeFetch } from '@ropewalk/client/node-fetch';
import type { ProvisionerDaemon, ProvisionerJob, ProvisionerKey } from '@ropewalk/contract';
import { errorText, type Logger } from '@ropewalk/kit';
import { sha256 } from '../machinery/apply.ts';
import { pause } from '../machinery/informer.ts';
import { followEvents } from './events.ts';

/** A server, an organization on it and the API token of the operator. */
export interface Target {
  url: string;
  token: string;
  organization: string;
}

/** Why the operator cannot work with a server, as the reason and message of a condition. */
export class ServerProblem extends Error {
  /** Which condition is false: the server does not answer, or it rejects the operator's credentials. */
  readonly concerns: 'ControlPlaneReady' | 'OperatorAccessReady';
  readonly reason: string;
  constructor(concerns: ServerProblem['concerns'], reason: string, message: string) {
    super(message);
    this.name = 'ServerProblem';
    this.concerns = concerns;
    this.reason = reason;
  }
}

/** The problem behind an error of a call to the server. */
export function problemOf(err: unknown, { url, organization }: Omit<Target, 'token'>): ServerProblem {
  if (err instanceof ServerProblem) return err;
  if (err instanceof UnreachableError) return new ServerProblem('ControlPlaneReady', 'Unreachable', errorText(err));
  if (!(err instanceof ApiError)) return new ServerProblem('ControlPlaneReady', 'RequestFailed', errorText(err));
  if (err.status === 401) {
    const message = `${url} rejects the token. Store a valid API token in the Secret of bootstrap.credentialsSecretRef.`;
    return new ServerProblem('OperatorAccessReady', 'Unauthorized', message);
  }
  // the server answers 404 to people who may not know of an organization
  if (err.status === 403 || err.status === 404) {
    const message =
      `The token's user cannot manage provisioner keys of the organization "${organization}" at ${url}, or the ` +
      'organization does not exist. Use the token of a Template Admin or Owner who is a member of it.';
    return new ServerProblem('OperatorAccessReady', 'Forbidden', message);
  }
  return new ServerProblem('ControlPlaneReady', 'RequestFailed', `${url} answered ${err.status}: ${errorText(err)}`);
}

export interface ServerState {
  /** Daemons that are connected. */
  daemons: ProvisionerDaemon[];
  /** Jobs that wait for a daemon. */
  pending: ProvisionerJob[];
  keys: ProvisionerKey[];
}

/** The changes of a server that concern a provisioner. */
export interface Interest {
  /** Its keys on the server. Other keys and their daemons do not concern it. */
  keys: ReadonlySet<string>;
  /** Whether the queue concerns it. */
  queue: boolean;
}

export interface Server {
  readonly state: ServerState;
  readonly client: Client;
  /** Adds a key that was just created, which a poll under way may not have seen. */
  addKey(key: ProvisionerKey): void;
  removeKey(name: string): void;
}

export interface Servers {
  /**
   * The state of a server, for this provisioner, which is woken from then on when it changes. Waits for the first poll.
   * @throws ServerProblem.
   */
  look(provisioner: string, target: Target): Promise<Server>;
  /** The same, but what wakes the provisioner stays as it is. @throws ServerProblem. */
  read(provisioner: string, target: Target): Promise<Server>;
  /** The target that a provisioner looked at last, whose token may be gone from the cluster since. */
  targetOf(provisioner: string): Target | undefined;
  /** Narrows the changes that wake a provisioner. Without it, every change does. */
  concern(provisioner: string, interest: Interest): void;
  /** Ends a provisioner's interest. A server without any is no longer polled. */
  leave(provisioner: string): void;
  stop(): Promise<void>;
}

/** Events never make polls follow one another sooner than this, in ms. */
const LEAST_MS = 200;
/** The maximum that the server lists. */
const MOST = 1_000;

export function clientFor({ url, token }: Pick<Target, 'url' | 'token'>, signal?: AbortSignal): Client {
  return createClient({ url, token, fetch: nodeFetch, ...(signal ? { signal } : {}) });
}

export interface ServersOptions {
  pollMs: number;
  log: Logger;
  wake(provisioner: string): void;
  /** Called when the daemons or the queue of a server differ from those of its last poll. */
  changed(): void;
}

export function createServers(options: ServersOptions): Servers {
  const polls = new Map<string, Poll>();
  const placeOf = new Map<string, string>();
  const leave = (provisioner: string) => {
    const place = placeOf.get(provisioner);
    if (place === undefined) return;
    placeOf.delete(provisioner);
    const poll = polls.get(place)!;
    poll.interested.delete(provisioner);
    if (poll.interested.size > 0) return;
    polls.delete(place);
    void poll.stop();
  };
  /** The poll of a server, which this provisioner keeps running. */
  const join = (provisioner: string, target: Target): Poll => {
    const place = sha256(target);
    if (placeOf.get(provisioner) !== place) leave(provisioner);
    let poll = polls.get(place);
    if (!poll) {
      poll = startPoll(target, options);
      polls.set(place, poll);
    }
    placeOf.set(provisioner, place);
    if (!poll.interested.has(provisioner)) poll.interested.set(provisioner, undefined);
    return poll;
  };
  return {
    async look(provisioner, target) {
      const poll = join(provisioner, target);
      poll.interested.set(provisioner, undefined);
      return poll.current();
    },
    read: async (provisioner, target) => join(provisioner, target).current(),
    targetOf(provisioner) {
      const place = placeOf.get(provisioner);
      return place === undefined ? undefined : polls.get(place)!.target;
    },
    concern(provisioner, interest) {
      const place = placeOf.get(provisioner);
      if (place !== undefined) polls.get(place)!.interested.set(provisioner, interest);
    },
    leave,
    async stop() {
      await Promise.all([...polls.values()].map((poll) => poll.stop()));
    },
  };
}

interface Poll {
  target: Target;
  interested: Map<string, Interest | undefined>;
  current(): Promise<Server>;
  stop(): Promise<void>;
}

function startPoll(target: Target, { pollMs, log, wake, changed }: ServersOptions): Poll {
  const aborter = new AbortController();
  const client = clientFor(target, aborter.signal);
  const interested = new Map<string, Interest | undefined>();
  const first = Promise.withResolvers<void>();
  const params = { organization: target.organization };
  /** Changes of keys since the poll under way began, which its answer may lack. */
  let recent: ((keys: ProvisionerKey[]) => ProvisionerKey[])[] = [];
  let outcome: Outcome | undefined;

  const read = async (): Promise<ServerState> => {
    const query = { limit: MOST };
    const [daemons, pending, keys] = await Promise.all([
      client.call('GET /organizations/{organization}/provisionerdaemons', {
        params,
        query: { ...query, status: 'idle,busy' },
      }),
      client.call('GET /organizations/{organization}/provisionerjobs', {
        params,
        query: { ...query, status: 'pending' },
      }),
      client.call('GET /organizations/{organization}/provisionerkeys', { params }),
    ]);
    return { daemons, pending, keys };
  };
  const poll = async () => {
    recent = [];
    let next: Outcome;
    try {
      const state = await read();
      next = { state: { ...state, keys: recent.reduce((keys, change) => change(keys), state.keys) } };
    } catch (err) {
      if (aborter.signal.aborted) return;
      next = { problem: problemOf(err, target) };
    }
    const before = outcome;
    outcome = next;
    first.resolve();
    if (!before) return;
    const change = changeOf(before, next);
    for (const [provisioner, interest] of interested) if (!interest || concerns(change, interest)) wake(provisioner);
    if (change.everything || change.queue || change.keys.size > 0) changed();
  };
  let early = new AbortController();
  const run = async () => {
    while (!aborter.signal.aborted) {
      // a change during the poll may be too late for its answer
      early = new AbortController();
      await poll();
      if (outcome && 'problem' in outcome) log.debug('server poll failed', { url: target.url, err: outcome.problem });
      const leastMs = Math.min(pollMs, LEAST_MS);
      await pause(leastMs, aborter.signal);
      await pause(pollMs - leastMs, AbortSignal.any([aborter.signal, early.signal]));
    }
  };
  const following = followEvents({ ...target, signal: aborter.signal, log, changed: () => early.abort() });
  const change = (apply: (keys: ProvisionerKey[]) => ProvisionerKey[]) => {
    recent.push(apply);
    if (outcome && 'state' in outcome) outcome.state = { ...outcome.state, keys: apply(outcome.state.keys) };
  };
  const running = run();
  return {
    target,
    interested,
    async current() {
      await first.promise;
      if (!outcome || 'problem' in outcome) throw outcome!.problem;
      return {
        state: outcome.state,
        client,
        addKey: (key) => change((keys) => [...keys.filter(({ id }) => id !== key.id), key]),
        removeKey: (name) => change((keys) => keys.filter((key) => key.name !== name)),
      };
    },
    async stop() {
      aborter.abort();
      first.resolve();
      outcome ??= { problem: new ServerProblem('ControlPlaneReady', 'Stopped', 'The operator is stopping.') };
      await Promise.all([running, following]);
    },
  };
}

type Outcome = { state: ServerState } | { problem: ServerProblem };

/** What differs between two polls. */
interface Change extends Interest {
  everything: boolean;
}

function changeOf(before: Outcome, now: Outcome): Change {
  if ('problem' in before || 'problem' in now) {
    const textOf = (outcome: Outcome) => ('problem' in outcome ? outcome.problem.message : '');
    return { everything: textOf(before) !== textOf(now), keys: new Set(), queue: false };
  }
  const ids = (jobs: readonly { id: string }[]) => jobs.map(({ id }) => id);
  return {
    everything: false,
    keys: new Set(difference(keyStates(before.state), keyStates(now.state))),
    queue: !isDeepStrictEqual(ids(before.state.pending), ids(now.state.pending)),
  };
}

/** Each key and daemon as a text, with the name of its key. Leaves out when a daemon was seen: that changes all the time. */
function keyStates({ daemons, keys }: ServerState): Map<string, string> {
  return new Map([
    ...daemons.map(({ id, status, version, key_name }) => [`${id} ${status} ${version}`, key_name ?? ''] as const),
    ...keys.map(({ id, name }) => [id, name] as const),
  ]);
}

/** The values of the entries that only one of the two has. */
function difference(a: Map<string, string>, b: Map<string, string>): string[] {
  const missing = (from: Map<string, string>, other: Map<string, string>) =>
    [...from].filter(([state]) => !other.has(state)).map(([, key]) => key);
  return [...missing(a, b), ...missing(b, a)];
}

function concerns(change: Change, { keys, queue }: Interest): boolean {
  return change.everything || (change.queue && queue) || [...keys].some((key) => change.keys.has(key));
}
