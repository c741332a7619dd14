// Agents of the tailnet that are connected to other servers. For each agent that a client of this server wants, this
// server opens a stream to the agent's server.
//
// - Here, the agent is a mirror in the coordinator: it publishes the agent's node, and what the coordinator sends to it goes
//   over the stream.
// - There, each client that this coordinator introduces is a mirror too, with a tunnel to each agent that it wants.
//
// So both coordinators introduce the two as if both were connected to them. Only the client's server decides whether it may
// reach the agent. When the stream ends, both sides have lost the other's peers, and this server looks where the agent is now.
// An agent that nobody at another server wants costs nothing.
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { CoordinatedPeer, Coordinator, PeerEnd } from '@ropewalk/tailnet/coordinator/coordinator';
import { hexOf } from '@ropewalk/tailnet/names';
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

/** A client of another server. It has one mirror here, also if it wants several agents. */
interface MirroredClient {
  readonly peer: CoordinatedPeer;
  /**
   * By the ids of its agents, in hexadecimal: the stream that announced the client to each. Undefined once the client or the
   * stream is lost. The agent keeps its sessions with the client then, until its right ends, too.
   */
  readonly tunnels: Map<string, Duplex | undefined>;
  /** Whether the coordinator takes its requests. */
  isOpen: boolean;
}

/** A stream of a server whose clients want an agent of this one. */
export interface AgentStream {
  agentId: string;
  /** The id of the other server. */
  from: string;
  stream: Duplex;
  /** Another client wants the agent. */
  onWanted(): void;
}

/** Mirrors the clients of other servers that want agents of this one. */
export class ClientMirrors {
  readonly #coordinator: Coordinator;
  /** By the server and the client's id, until the coordinator has forgotten them. */
  readonly #clients = new Map<string, MirroredClient>();

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator;
  }

  /** Serves a stream until it ends. Destroys it. Rejects with the stream's error. */
  async serve({ agentId, from, stream, onWanted }: AgentStream): Promise<void> {
    stream.on('error', () => {});
    const agent = uuidBytes(agentId);
    // has the agent's node, also before the first client has one
    const observer = this.#connect(randomBytes(ID_BYTES), 'observer');
    await wantAgent(observer, agent);
    const observing = observe(observer, stream);
    const names = new Set<string>();
    try {
      for await (const message of received<AboutClient | Wanted>(stream))
        if ('wanted' in message) onWanted();
        else {
          const update = fromBinary(CoordinateResponse_PeerUpdateSchema, Buffer.from(message.update, 'base64'));
          const name = `${from} ${hexOf(update.id)}`;
          if (update.kind === Kind.NODE) names.add(name);
          else names.delete(name);
          await this.#receive(name, update, message.owner, { agent, stream });
        }
    } finally {
      stream.destroy();
      for (const name of names)
        if (this.#clients.get(name)?.tunnels.get(hexOf(agent)) === stream) this.#end(name, agent, 'lost');
      observer.close('disconnected');
      await observing;
    }
  }

  #connect(id: Uint8Array, owner: string): CoordinatedPeer {
    return this.#coordinator.connect({ id, owner, rule, isMirror: true });
  }

  async #receive(
    name: string,
    { id, kind, node }: CoordinateResponse_PeerUpdate,
    owner: string | undefined,
    { agent, stream }: { agent: Uint8Array; stream: Duplex },
  ): Promise<void> {
    // the agent may know it from the server where it was before
    if (kind === Kind.DISCONNECTED && !this.#clients.has(name)) this.#coordinator.disconnect(id, agent);
    else if (kind === Kind.LOST || kind === Kind.DISCONNECTED)
      this.#end(name, agent, kind === Kind.LOST ? 'lost' : 'disconnected');
    else if (kind === Kind.NODE && node && owner !== undefined) {
      const known = this.#clients.get(name);
      const client = known?.isOpen ? known : this.#add(name, this.#connect(id, owner), known);
      if (client.tunnels.get(hexOf(agent)) !== stream) {
        client.tunnels.set(hexOf(agent), stream);
        await wantAgent(client.peer, agent);
      }
      await client.peer.request(create(CoordinateRequestSchema, { updateSelf: { node } }));
    }
  }

  /** `lost`: the client's last mirror. */
  #add(name: string, peer: CoordinatedPeer, lost: MirroredClient | undefined): MirroredClient {
    const tunnels = [...(lost?.tunnels.keys() ?? [])].map((agent) => [agent, undefined] as const);
    const client: MirroredClient = { peer, tunnels: new Map(tunnels), isOpen: true };
    this.#clients.set(name, client);
    void passReadiness(name, client);
    // it has connected to this server or a third one, or it was lost for long
    void peer.forgotten.then(() => {
      if (this.#clients.get(name) === client) this.#clients.delete(name);
    });
    return client;
  }

  /** The client or the stream is lost, or the client may not reach this agent any more, or has left. */
  #end(name: string, agent: Uint8Array, end: PeerEnd): void {
    const client = this.#clients.get(name);
    if (!client?.tunnels.has(hexOf(agent))) return;
    if (end === 'lost') client.tunnels.set(hexOf(agent), undefined);
    else client.tunnels.delete(hexOf(agent));
    client.peer.revoke(agent, end);
    if (client.tunnels.size === 0) client.peer.close('disconnected');
    else if ([...client.tunnels.values()].every((stream) => stream === undefined)) client.peer.close();
  }
}

function wantAgent(peer: CoordinatedPeer, agent: Uint8Array): Promise<void> {
  return peer.request(create(CoordinateRequestSchema, { addTunnel: { id: agent } }));
}

/** Passes an agent's node on, and ends the stream when the agent is gone. */
async function observe(observer: CoordinatedPeer, stream: Duplex): Promise<void> {
  for await (const { peerUpdates } of observer.responses)
    for (const { kind, node } of peerUpdates) {
      if (kind === Kind.NODE && node) await send(stream, { node: encodeNode(node) });
      else if (kind === Kind.DISCONNECTED) await send(stream, { disconnected: true });
      if (kind === Kind.DISCONNECTED || kind === Kind.LOST) stream.end();
    }
  stream.end();
}

/** Passes on that agents are ready for a client, each over its own stream, until the mirror ends. */
async function passReadiness(name: string, client: MirroredClient): Promise<void> {
  for await (const { peerUpdates } of client.peer.responses)
    for (const { kind, id } of peerUpdates) {
      const stream = kind === Kind.READY_FOR_HANDSHAKE ? client.tunnels.get(hexOf(id)) : undefined;
      if (stream) await send(stream, { ready: name.slice(name.indexOf(' ') + 1) });
    }
  client.isOpen = false;
}
