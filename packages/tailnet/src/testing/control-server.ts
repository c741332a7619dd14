import { randomUUID } from 'node:crypto';
import { duplexPair } from 'node:stream';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { type DrpcHandlers, implement, serveDrpc } from '@ropewalk/wire/drpc';
import { type DERPMapSchema, Tailnet } from '@ropewalk/wire/proto/tailnet';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { type ControlConnection, ResumeTokenError } from '../coordinator/client.ts';
import { Coordinator } from '../coordinator/coordinator.ts';
import { agentRule, clientRule } from '../coordinator/rules.ts';

type Map = MessageInitShape<typeof DERPMapSchema>;

/** A coordinator behind its real protocol: DRPC over yamux, on streams in memory. It can restart. */
export class ControlServer {
  coordinator = new Coordinator();
  map: Map;
  /** Whether it accepts connections. */
  isUp = true;
  /** Resume tokens and the ids that they stand for. */
  readonly tokens = new Map<string, Buffer>();
  readonly #sessions = new Set<YamuxSession>();
  #refreshes = 0;

  constructor(map: Map) {
    this.map = map;
  }

  get refreshes(): number {
    return this.#refreshes;
  }

  /** A connection of the agent with this id. */
  readonly dialAsAgent = (id: Buffer) => async (): Promise<ControlConnection> => this.#connect(id, agentRule(id));

  /** A connection of a client that may reach all agents. */
  readonly dialAsClient = async ({ resumeToken }: { resumeToken: string | undefined }): Promise<ControlConnection> => {
    const resumed = resumeToken === undefined ? undefined : this.tokens.get(resumeToken);
    if (resumeToken !== undefined && !resumed) throw new ResumeTokenError();
    const id = resumed ?? Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
    return this.#connect(
      id,
      clientRule(() => true),
    );
  };

  /** Ends all connections without a word, and forgets all peers. */
  async restart(): Promise<void> {
    this.coordinator.close();
    this.coordinator = new Coordinator();
    await Promise.all([...this.#sessions].map((session) => session.close()));
  }

  async close(): Promise<void> {
    this.isUp = false;
    await this.restart();
  }

  #connect(id: Buffer, rule: ReturnType<typeof agentRule>): ControlConnection {
    if (!this.isUp) throw new Error('connection refused');
    const [near, far] = duplexPair();
    const handlers = this.#handlers(id, rule);
    const server = new YamuxSession(far, { role: 'server' });
    const client = new YamuxSession(near, { role: 'client' });
    serveDrpc(server, [implement(Tailnet, handlers)]);
    this.#sessions.add(server);
    void server.closed.then(() => this.#sessions.delete(server));
    return { openStream: () => client.openStream(), close: () => void client.close() };
  }

  #handlers(id: Buffer, rule: ReturnType<typeof agentRule>): DrpcHandlers<typeof Tailnet> {
    const { coordinator } = this;
    return {
      coordinate: async function* (requests, { signal }) {
        const peer = coordinator.connect({ id, owner: id.toString('hex'), rule });
        signal.addEventListener('abort', () => peer.close(), { once: true });
        void (async () => {
          for await (const request of requests) await peer.request(request);
          peer.close();
        })().catch(() => peer.close());
        yield* peer.responses;
      },
      streamDERPMaps: async function* (this: ControlServer, _request: unknown, { signal }: { signal: AbortSignal }) {
        yield this.map;
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
      }.bind(this),
      refreshResumeToken: () => {
        this.#refreshes++;
        const token = randomUUID();
        this.tokens.set(token, id);
        return { token, refreshIn: { seconds: 43_200n } };
      },
    };
  }
}
