// This program as a node of the tailnet, which reaches one agent. For agents that have no tunnels of the server.
import type { Duplex } from 'node:stream';
import { errorText } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { addressOf, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { CoordinatorClient, ResumeTokenError } from '@ropewalk/tailnet/coordinator/client';
import { regionDialer, regionMeasurer } from '@ropewalk/tailnet/derp/dial';
import type { RelayRegion } from '@ropewalk/tailnet/derp/map';
import { firstPing } from '@ropewalk/tailnet/node/first-ping';
import { nodeWithStack } from '@ropewalk/tailnet/node/node-with-stack';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import type { Stack } from '@ropewalk/tailnet/stack/stack';
import type { UdpFlow, UdpFlowHandler } from '@ropewalk/tailnet/stack/udp';
import type { DERPMap } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { YamuxSession } from '@ropewalk/wire/yamux';
import type { Client } from '../client.ts';
import { dialStream } from '../dial.ts';
import { ApiError, UnreachableError } from '../errors.ts';

/** How long the coordinator, the relay and the agent may take until the agent is a peer of this node, in ms. */
const JOIN_MS = 30_000;
/** The version of upstream's API that this program speaks. */
const VERSION = '2.0';
const UNAUTHORIZED = 401;

/** How packets reach the agent, and how long their round trip takes. */
export interface TailnetPing {
  /** In ms. */
  ms: number;
  /** Such as `relay Europe` or `direct 192.0.2.7:41641`. */
  path: string;
  /** The agent's UDP address of a direct path. */
  endpoint?: string;
}

export interface JoinOptions {
  signal?: AbortSignal;
  /** Do not join if this program or the server allows no direct connections. */
  isOnlyDirect?: boolean;
}

/**
 * Joins the tailnet and waits until the agent is a peer. @throws ApiError if the server rejects this client,
 * UnreachableError if the agent does not become a peer in time, or if only a direct path is of use and none is allowed.
 */
export async function joinTailnet(
  client: Client,
  agentId: string,
  { signal, isOnlyDirect = false }: JoinOptions = {},
): Promise<TailnetMember> {
  const info = await client.call('GET /workspaceagents/{workspaceagent}/connection', {
    params: { workspaceagent: agentId },
  });
  const blockDirect = client.blocksDirect || info.disable_direct_connections;
  if (isOnlyDirect && blockDirect) throw new UnreachableError('Direct connections are disabled.');
  const member = new TailnetMember(client, agentId, { blockDirect, forceWebSockets: info.derp_force_websockets });
  try {
    await member.reached(signal);
    return member;
  } catch (err) {
    await member.close();
    throw err;
  }
}

export class TailnetMember {
  readonly #stack: Stack;
  readonly #node: TailnetNode;
  readonly #coordinator: CoordinatorClient;
  readonly #id: Uint8Array;
  readonly #address: Buffer;
  readonly #isPeer = Promise.withResolvers<void>();
  #map: DERPMap | undefined;
  #hasAnswered = false;

  constructor(client: Client, agentId: string, how: { blockDirect: boolean; forceWebSockets: boolean }) {
    this.#id = uuidBytes(agentId);
    this.#address = addressOf(TAILNET_PREFIX, this.#id);
    // headers are for this program's own server only. Each relay may ask for the certificate
    const common = ({ isEmbedded }: RelayRegion) => ({
      tls: client.tls,
      ...(isEmbedded ? { headers: { ...client.headers } } : {}),
    });
    const { node, stack } = nodeWithStack({
      ...how,
      dial: (region, dialing) => regionDialer(common(region))(region, dialing),
      measure: (region, measuring) => regionMeasurer(common(region))(region, measuring),
    });
    this.#stack = stack;
    this.#node = node;
    this.#coordinator = new CoordinatorClient({
      ...{ node, role: 'client', serverUrl: client.url },
      dial: (dialing) =>
        dialCoordinator(client, agentId, dialing).catch((err) => {
          // this person may not reach the agent any more
          if (isRejection(err)) stack.close();
          throw err;
        }),
      isFinal: isRejection,
      onRelayMap: (map) => {
        this.#map = map;
      },
      onPeer: () => this.#isPeer.resolve(),
    });
    this.#coordinator.addTunnel(this.#id);
    this.#coordinator.run().catch((err) => this.#isPeer.reject(err));
    this.#isPeer.promise.catch(() => {});
  }

  /** Resolves when the agent is a peer. */
  async reached(signal?: AbortSignal): Promise<void> {
    const limit = AbortSignal.timeout(JOIN_MS);
    try {
      await abortable(this.#isPeer.promise, signal ? AbortSignal.any([signal, limit]) : limit);
    } catch (err) {
      if (signal?.aborted || !limit.aborted) throw err;
      throw new UnreachableError(`The agent did not join the tailnet within ${JOIN_MS / 1_000} s.`, err);
    }
  }

  /** Opens a TCP connection to a port of the agent. */
  async connect(port: number, signal?: AbortSignal): Promise<Duplex> {
    try {
      return await this.#stack.connect({ to: this.#address, port, ...(signal ? { signal } : {}) });
    } catch (err) {
      if (signal?.aborted) throw err;
      throw new UnreachableError(`Could not connect to port ${port} of the agent: ${errorText(err)}`, err);
    }
  }

  /** Begins a flow of datagrams to a port of the agent. */
  openUdp(port: number, handler: UdpFlowHandler): UdpFlow {
    return this.#stack.openUdp(this.#address, port, handler);
  }

  /** Asks the agent for an answer, on the path that packets take now. Rejects with PingError after 5 s. */
  async ping(signal?: AbortSignal): Promise<TailnetPing> {
    const options = signal ? { signal } : {};
    const { ms, path } = await (this.#hasAnswered
      ? this.#node.ping(this.#id, options)
      : firstPing(this.#node, this.#id, options));
    this.#hasAnswered = true;
    if (path.kind === 'direct') return { ms, path: `direct ${path.endpoint}`, endpoint: path.endpoint };
    const region = Object.values(this.#map?.regions ?? {}).find(({ regionId }) => Number(regionId) === path.region);
    return { ms, path: `relay ${region?.regionName || path.region}` };
  }

  /** Leaves the tailnet. Ends its connections. Never rejects. */
  async close(): Promise<void> {
    await this.#coordinator.close();
    this.#stack.close();
    this.#node.close();
  }
}

/** Whether another attempt changes nothing. */
const isRejection = (err: unknown): boolean => err instanceof ApiError && err.status < 500;

async function dialCoordinator(
  client: Client,
  agentId: string,
  { resumeToken, signal }: { resumeToken: string | undefined; signal: AbortSignal },
) {
  const query = new URLSearchParams({ version: VERSION, ...(resumeToken ? { resume_token: resumeToken } : {}) });
  const path = `/workspaceagents/${encodeURIComponent(agentId)}/coordinate?${query}`;
  const stream = await dialStream(client, path, signal).catch((err) => {
    // the server may not know the token any more; without it, a rejection is about this person
    if (resumeToken && err instanceof ApiError && err.status === UNAUTHORIZED) throw new ResumeTokenError(err.message);
    throw err;
  });
  const session = new YamuxSession(stream, { role: 'client' });
  return { openStream: () => session.openStream(), close: () => void session.close() };
}
