import { create } from '@bufbuild/protobuf';
import { formatHostPrefix } from '@ropewalk/tailnet/address';
import { encodeNodeKey, formatDiscoKey, KeyPair } from '@ropewalk/tailnet/keys';
import { eventually } from '@ropewalk/testkit';
import { createDrpcClient, type DrpcClient } from '@ropewalk/wire/drpc';
import {
  type CoordinateRequestSchema,
  type CoordinateResponse_PeerUpdate,
  type CoordinateResponse_PeerUpdate_Kind as Kind,
  NodeSchema,
  Tailnet,
} from '@ropewalk/wire/proto/tailnet';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

type Init = Parameters<typeof create<typeof CoordinateRequestSchema>>[1];

/** A control connection with its Coordinate call. */
export class Control {
  readonly connection: WebSocketConnection;
  readonly session: YamuxSession;
  readonly tailnet: DrpcClient<typeof Tailnet>;
  readonly call: ReturnType<DrpcClient<typeof Tailnet>['coordinate']>;
  readonly keys: KeyPair = KeyPair.generate();
  readonly updates: CoordinateResponse_PeerUpdate[] = [];
  readonly errors: string[] = [];
  ended = false;

  constructor(connection: WebSocketConnection) {
    this.connection = connection;
    this.session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
    this.tailnet = createDrpcClient(Tailnet, () => this.session.openStream());
    this.call = this.tailnet.coordinate();
    void this.#read();
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const response = await this.call.receive();
        if (!response) break;
        if (response.error) this.errors.push(response.error);
        this.updates.push(...response.peerUpdates);
      }
    } catch (err) {
      if (!/closed|ended/.test(String(err))) this.errors.push(String(err));
    }
    this.ended = true;
  }

  send(init: Init): Promise<void> {
    return this.call.send(init as never);
  }

  publish(address: Uint8Array, more: object = {}): Promise<void> {
    const addresses = [formatHostPrefix(address)];
    const node = create(NodeSchema, {
      key: encodeNodeKey(this.keys.publicKey),
      disco: formatDiscoKey(KeyPair.generate().publicKey),
      preferredDerp: 999,
      addresses,
      allowedIps: addresses,
      ...more,
    });
    return this.send({ updateSelf: { node } });
  }

  /** The last kind of update about the peer with this key, by its node. */
  kinds(): Kind[] {
    return this.updates.map(({ kind }) => kind);
  }

  /** Waits until it has received the node of this control connection. */
  async has(other: Control): Promise<CoordinateResponse_PeerUpdate> {
    return eventually('the node', async () =>
      this.updates.find(({ node }) => node && Buffer.from(node.key).equals(encodeNodeKey(other.keys.publicKey))),
    ) as Promise<CoordinateResponse_PeerUpdate>;
  }
}
