// Agents of the tailnet that are connected to other servers. For each agent that a client of this server wants, this
// server opens a stream to the agent's server.
//
// - Here, the agent is a mirror in the coordinator: it publishes the agent's node, and what the coordinator sends to it goes
//   over the stream.
// - There, each client that this coordinator introduces is a mirror too, with a tunnel to the agent.
//
// So both coordinators introduce the two as if both were connected to them. Only the client's server decides whether it may
// reach the agent. When the stream ends, both sides have lost the other's peers, and this server looks where the agent is now.
// An agent that nobody at another server wants costs nothing.
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { CoordinatedPeer, Coordinator, PeerEnd } from '@ropewalk/tailnet/coordinator/coordinator';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import {
  CoordinateRequestSchema,
  type CoordinateResponse_PeerUpdate,
  CoordinateResponse_PeerUpdateSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  type Node,
  NodeSchema,
} from '@ropewalk/wire/proto/tailnet';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { agentOwner } from '../../rpc/tailnet/agents.ts';

export const AGENT_SERVICE = 'tailnet agent';
/** The longest message. Nodes have up to 16 KiB, the rest a few hundred bytes. */
const MAX_MESSAGE_BYTES = 64 * 1024;
const ID_BYTES = 16;

/** From the client's server: what its coordinator sends to the agent, about a client of this owner. */
interface AboutClient {
  /** Absent once the client is gone. */
  owner?: string;
  /** A PeerUpdate, in Base64. */
  update: string;
}
/** From the client's server: another client wants the agent. */
interface Wanted {
  wanted: true;
}
/** From the agent's server: its node, a client for whose handshake it is ready, or that it has ended in order. */
type AboutAgent = { node: string } | { ready: string } | { disconnected: true };

/** Every peer was checked by its own server. */
const rule = () => undefined;

/** Sends a message, and waits while the stream accepts no more. */
async function send(stream: Duplex, message: AboutClient | Wanted | AboutAgent): Promise<void> {
  if (stream.destroyed || stream.writableEnded || stream.write(frameMessage(Buffer.from(JSON.stringify(message)))))
    return;
  await new Promise<void>((resolve) => {
    const go = () => {
      stream.off('drain', go).off('close', go);
      resolve();
    };
    stream.on('drain', go).on('close', go);
  });
}

async function* received<T>(stream: Duplex): AsyncGenerator<T, void, undefined> {
  for await (const message of framedMessages(stream, MAX_MESSAGE_BYTES)) yield JSON.parse(message.toString()) as T;
}

const encodeNode = (node: Node): string => Buffer.from(toBinary(NodeSchema, node)).toString('base64');
const decodeNode = (text: string): Node => fromBinary(NodeSchema, Buffer.from(text, 'base64'));

/** Asks the agent's server to have it join, because another client wants it. */
export function wantAgain(stream: Duplex): void {
  void send(stream, { wanted: true });
}

/**
 * Mirrors an agent here, until the stream to its server ends. Destroys the stream. Rejects with the stream's error, after it
 * ended the mirror.
 */
export async function mirrorAgent(coordinator: Coordinator, agentId: string, stream: Duplex): Promise<void> {
  stream.on('error', () => {});
  const peer = coordinator.connect({
    id: uuidBytes(agentId),
    owner: agentOwner({ id: agentId }),
    rule,
    isMirror: true,
  });
  let end: PeerEnd = 'lost';
  const pass = async () => {
    for await (const { peerUpdates } of peer.responses)
      for (const update of peerUpdates) {
        const owner = coordinator.ownerOf(update.id);
        const bytes = toBinary(CoordinateResponse_PeerUpdateSchema, update);
        await send(stream, { ...(owner && { owner }), update: Buffer.from(bytes).toString('base64') });
      }
    // the agent has connected to this server
    stream.destroy();
  };
  const passing = pass();
  try {
    for await (const message of received<AboutAgent>(stream)) {
      if ('node' in message)
        await peer.request(create(CoordinateRequestSchema, { updateSelf: { node: decodeNode(message.node) } }));
      else if ('ready' in message) {
        const readyForHandshake = [{ id: Buffer.from(message.ready, 'hex') }];
        await peer.request(create(CoordinateRequestSchema, { readyForHandshake }));
      } else end = 'disconnected';
    }
  } finally {
    stream.destroy();
    peer.close(end);
    await passing;
  }
}

/** Mirrors the clients of another server that want an agent of this one, until the stream ends. Destroys the stream. */
export class ClientMirrors {
  readonly #coordinator: Coordinator;
  readonly #agent: Uint8Array;
  readonly #stream: Duplex;
  /** By the client's id, in hexadecimal. */
  readonly #clients = new Map<string, CoordinatedPeer>();

  constructor(coordinator: Coordinator, agentId: string, stream: Duplex) {
    this.#coordinator = coordinator;
    this.#agent = uuidBytes(agentId);
    this.#stream = stream.on('error', () => {});
  }

  /** `onWanted`: another client wants the agent. Rejects with the stream's error. */
  async serve(onWanted: () => void): Promise<void> {
    // has the agent's node, also before the first client has one
    const observer = this.#connect(randomBytes(ID_BYTES), 'observer');
    await this.#wantAgent(observer);
    const observing = this.#observe(observer);
    try {
      for await (const message of received<AboutClient | Wanted>(this.#stream))
        if ('wanted' in message) onWanted();
        else await this.#receive(message);
    } finally {
      this.#stream.destroy();
      for (const peer of [...this.#clients.values()]) peer.close();
      observer.close('disconnected');
      await observing;
    }
  }

  #connect(id: Uint8Array, owner: string): CoordinatedPeer {
    return this.#coordinator.connect({ id, owner, rule, isMirror: true });
  }

  #wantAgent(peer: CoordinatedPeer): Promise<void> {
    return peer.request(create(CoordinateRequestSchema, { addTunnel: { id: this.#agent } }));
  }

  /** Passes the agent's node on, and ends the stream when the agent is gone. */
  async #observe(observer: CoordinatedPeer): Promise<void> {
    for await (const { peerUpdates } of observer.responses)
      for (const { kind, node } of peerUpdates) {
        if (kind === Kind.NODE && node) await send(this.#stream, { node: encodeNode(node) });
        else if (kind === Kind.DISCONNECTED) await send(this.#stream, { disconnected: true });
        if (kind === Kind.DISCONNECTED || kind === Kind.LOST) this.#stream.end();
      }
    this.#stream.end();
  }

  async #receive({ owner, update }: AboutClient): Promise<void> {
    const { id, kind, node } = fromBinary(CoordinateResponse_PeerUpdateSchema, Buffer.from(update, 'base64'));
    const name = Buffer.from(id).toString('hex');
    if (kind === Kind.LOST || kind === Kind.DISCONNECTED) {
      this.#clients.get(name)?.close(kind === Kind.LOST ? 'lost' : 'disconnected');
      this.#clients.delete(name);
    } else if (kind === Kind.NODE && node && owner !== undefined) {
      const peer = this.#clients.get(name) ?? (await this.#add(id, name, owner));
      await peer.request(create(CoordinateRequestSchema, { updateSelf: { node } }));
    }
  }

  async #add(id: Uint8Array, name: string, owner: string): Promise<CoordinatedPeer> {
    const peer = this.#connect(id, owner);
    this.#clients.set(name, peer);
    void this.#passReadiness(peer, name);
    await this.#wantAgent(peer);
    return peer;
  }

  async #passReadiness(peer: CoordinatedPeer, name: string): Promise<void> {
    for await (const { peerUpdates } of peer.responses)
      if (peerUpdates.some(isReadiness)) await send(this.#stream, { ready: name });
    // it has connected to this server or a third one, or another owner has its key
    if (this.#clients.get(name) === peer) this.#clients.delete(name);
  }
}

const isReadiness = ({ kind }: CoordinateResponse_PeerUpdate): boolean => kind === Kind.READY_FOR_HANDSHAKE;
