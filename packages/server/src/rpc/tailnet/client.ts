import { errorText } from '@ropewalk/kit';
import type { CoordinatedPeer } from '@ropewalk/tailnet/coordinator/coordinator';
import { type DrpcHandlers, implement, serveDrpc } from '@ropewalk/wire/drpc';
import { type CoordinateRequest, Tailnet } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { whileAllowed } from '../../app/context/allowed.ts';
import type { Ctx } from '../../app/context/context.ts';
import { mayJoinTailnet, reachableAgents } from '../../app/tailnet/reach.ts';
import { AGENT_BOUNDS } from '../bounds.ts';
import { describeCallError } from '../call-errors.ts';
import type { TailnetHub } from './hub.ts';
import { workspaceUpdates } from './workspace-updates.ts';

/** Concurrent calls of one client. It makes four. */
const MAX_CALLS = 32;
/** The longest message of a client, and the bytes of messages that all its calls may hold. */
const MAX_MESSAGE_BYTES = 256 * 1024;
const MAX_HELD_BYTES = 1024 * 1024;
const CLOSE = { done: 1000, revoked: 1008, stopped: 1001, failed: 1011 } as const;

export interface TailnetClientOptions {
  /** The id of its peer, from a resume token or random. */
  peerId: string;
  /** The only agent that it may reach. Absent: every agent that the person may reach. */
  agentId?: string;
}

/** The owner of a person's peers. */
export const tailnetOwner = ({ actor }: Pick<Ctx, 'actor'>): string => `user ${actor.kind === 'user' ? actor.id : ''}`;

/**
 * One client's control connection. Its rights are checked when it asks for an agent, and again whenever they or the
 * workspace may have changed: for as long as the coordinator remembers the client, which may be longer than the
 * connection lasts.
 */
export class TailnetClient {
  readonly #hub: TailnetHub;
  /** With the newest known rights of the person. */
  #ctx: Ctx;
  readonly #options: TailnetClientOptions;
  readonly #peers = new Set<CoordinatedPeer>();
  /** The agents that it may have tunnels to, with the ids of their workspaces once these are known. */
  readonly #destinations = new Map<string, string | undefined>();
  /** How often rights were read again. */
  #checks = 0;
  #session: YamuxSession | undefined;
  #closeCode: number = CLOSE.done;
  #stopWatching: (() => void) | undefined;

  constructor(hub: TailnetHub, ctx: Ctx, options: TailnetClientOptions) {
    this.#hub = hub;
    this.#ctx = ctx;
    this.#options = options;
  }

  /** Serves the connection until it ends. */
  async serve(connection: WebSocketConnection): Promise<void> {
    const { log } = this.#ctx;
    const stream = byteStream(connection, { closeCode: () => (session.failed ? CLOSE.failed : this.#closeCode) });
    const session = new YamuxSession(stream, { role: 'server', maxIncomingStreams: MAX_CALLS });
    this.#session = session;
    const onStop = () => this.#end(CLOSE.stopped);
    this.#hub.closed.addEventListener('abort', onStop, { once: true });
    this.#stopWatching = whileAllowed(
      this.#ctx,
      (now) => this.#check(now),
      () => this.#revoke(),
      {
        isUsed: () => !session.isClosed,
        also: (check) =>
          this.#ctx.events.on('workspace_changed', ({ workspace_id: id }) => {
            for (const workspace of this.#destinations.values()) if (workspace === id) return check();
          }),
      },
    );
    serveDrpc(session, [implement(Tailnet, this.#calls())], {
      maxMessageBytes: MAX_MESSAGE_BYTES,
      maxHeldBytes: MAX_HELD_BYTES,
      bounds: AGENT_BOUNDS,
      describeError: describeCallError(log),
      onError: (err, method) => log.debug('call of a tailnet client failed', { method, err: errorText(err) }),
    });
    await session.closed;
    this.#hub.closed.removeEventListener('abort', onStop);
    for (const peer of this.#peers) peer.close();
    this.#stopIfForgotten();
  }

  #calls(): DrpcHandlers<typeof Tailnet> {
    const owner = tailnetOwner(this.#ctx);
    return {
      coordinate: (requests, { signal }) => this.#coordinate(owner, requests, signal),
      streamDERPMaps: (_request, { signal }) => this.#hub.maps(signal),
      refreshResumeToken: () => this.#hub.resumeToken({ id: this.#options.peerId, owner }),
      postTelemetry: () => ({}),
      ...(this.#options.agentId === undefined
        ? {
            workspaceUpdates: ({ workspaceOwnerId }, { signal }) =>
              workspaceUpdates(() => this.#ctx, workspaceOwnerId, signal),
          }
        : {}),
    };
  }

  async *#coordinate(owner: string, requests: AsyncIterable<CoordinateRequest>, signal: AbortSignal) {
    const { coordinator, rules } = await this.#hub.load();
    const rule = rules.clientRule((id) => this.#mayReach(uuidText(id)));
    const peer = coordinator.connect({ id: uuidBytes(this.#options.peerId), owner, rule });
    this.#peers.add(peer);
    void peer.forgotten.then(() => {
      this.#peers.delete(peer);
      this.#stopIfForgotten();
    });
    if (this.#stopWatching === undefined) peer.close('disconnected');
    yield* this.#hub.coordinate(peer, owner, requests, signal);
  }

  async #mayReach(agentId: string): Promise<boolean> {
    const { agentId: only } = this.#options;
    if (only !== undefined && agentId !== only.toLowerCase()) return false;
    if (!this.#destinations.has(agentId)) this.#destinations.set(agentId, undefined);
    let checks: number;
    let workspace: string | undefined;
    do {
      // rights that were read meanwhile count
      checks = this.#checks;
      workspace = (await reachableAgents(this.#ctx, [agentId]))[0]?.workspace_id;
    } while (checks !== this.#checks);
    if (workspace === undefined) this.#destinations.delete(agentId);
    else {
      this.#destinations.set(agentId, workspace);
      this.#hub.want(agentId);
    }
    return workspace !== undefined;
  }

  /** Ends the tunnels that the person may no longer have. Throws if the connection as a whole must end. */
  async #check(now: Ctx): Promise<void> {
    this.#ctx = now;
    this.#checks++;
    await mayJoinTailnet(now, this.#options.agentId);
    const ids = [...this.#destinations.keys()];
    const allowed = new Set((await reachableAgents(now, ids)).map(({ id }) => id));
    for (const id of ids) {
      if (allowed.has(id)) continue;
      this.#destinations.delete(id);
      for (const peer of this.#peers) peer.revoke(uuidBytes(id));
    }
  }

  #revoke(): void {
    this.#stopWatching = undefined;
    for (const peer of this.#peers) peer.close('disconnected');
    this.#end(CLOSE.revoked);
  }

  #end(code: number): void {
    this.#closeCode = code;
    void this.#session?.close();
  }

  #stopIfForgotten(): void {
    if (this.#peers.size > 0 || this.#session?.isClosed === false) return;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }
}
