import type { Duplex } from 'node:stream';
import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type DescMethodClientStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { encodeMessage, sizeOf } from './encode-message.ts';
import { DrpcError, type DrpcPacket, decodeError, encodeMetadata, KIND, MAX_MESSAGE_BYTES } from './frames.ts';
import { DrpcTransport, MessageQueue } from './transport.ts';

export interface DrpcCallOptions {
  /** Ends the call by closing its stream. The call then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Covers the whole call. Unary calls default to the client's timeout, streams have none. */
  timeoutMs?: number;
  metadata?: Readonly<Record<string, string>>;
}

/** A call that streams in at least one direction. */
export interface DrpcCall<I extends DescMessage, O extends DescMessage> {
  /**
   * Sends one message. Resolves when the stream accepts more, and rejects when the call is over. Bytes in the message
   * are not copied, so they must not change while the call lasts.
   */
  send(message: MessageInitShape<I>): Promise<void>;
  /** Announces the end of sending. Do not use it on AcquireJobWithCancel: the server treats it as a cancel. */
  closeSend(): Promise<void>;
  /** The next response. Undefined after the server ended the call without an error. Rejects with DrpcError. */
  receive(): Promise<MessageShape<O> | undefined>;
  /** The responses until the server ends. Leaving the loop early cancels the call. */
  responses: AsyncIterable<MessageShape<O>>;
  /** Closes the stream, which the server sees. Safe at any time. */
  cancel(reason?: Error): void;
}

/** The methods of a service, keyed by their camelCase names. */
export type DrpcClient<S extends DescService> = {
  [K in keyof S['method']]: S['method'][K] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, options?: DrpcCallOptions) => Promise<MessageShape<O>>
    : S['method'][K] extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageInitShape<I>, options?: DrpcCallOptions) => DrpcCall<I, O>
      : S['method'][K] extends DescMethodClientStreaming<infer I, infer O> | DescMethodBiDiStreaming<infer I, infer O>
        ? (options?: DrpcCallOptions) => DrpcCall<I, O>
        : never;
};

export interface DrpcClientOptions {
  /** The timeout of unary calls without one, in ms (default 30,000). */
  timeoutMs?: number;
  maxMessageBytes?: number;
}

const EMPTY = new Uint8Array();

interface CallSettings {
  name: string;
  input: DescMessage;
  output: DescMessage;
  /** Whether the call is over after its first response. */
  oneResponse: boolean;
  maxBytes: number;
}

/** One error for all calls that have ended well: recording a stack for each would cost more than the rest of its end. */
const OVER = new DrpcError('the call is over');

class ClientCall {
  readonly #settings: CallSettings;
  readonly #opened: Promise<DrpcTransport>;
  readonly #cleanup: () => void;
  #queue: MessageQueue | undefined;
  #messageId = 1;
  #over: Error | undefined;
  #sendClosed = false;
  #sending: Promise<void>;

  constructor(
    settings: CallSettings,
    openStream: () => Duplex | Promise<Duplex>,
    options: DrpcCallOptions,
    first: { request: unknown } | undefined,
  ) {
    this.#settings = settings;
    const { signal, timeoutMs, metadata } = options;
    const aborted = () => this.cancel(signal?.reason as Error);
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(
            () => this.cancel(new DrpcError(`${settings.name}: no answer within ${timeoutMs} ms`, 4)),
            timeoutMs,
          );
    this.#cleanup = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
    };
    const packets: [number, Uint8Array | readonly Uint8Array[]][] = [];
    if (metadata && Object.keys(metadata).length > 0) packets.push([KIND.invokeMetadata, encodeMetadata(metadata)]);
    packets.push([KIND.invoke, Buffer.from(settings.name)]);
    try {
      signal?.throwIfAborted();
      if (first) {
        packets.push([KIND.message, this.#encode(first.request)], [KIND.closeSend, EMPTY]);
        this.#sendClosed = true;
      }
      signal?.addEventListener('abort', aborted, { once: true });
    } catch (err) {
      this.#over = err as Error;
      this.#cleanup();
      this.#opened = Promise.reject(err);
      this.#sending = this.#opened.then(() => {});
      this.#opened.catch(() => {});
      this.#sending.catch(() => {});
      return;
    }
    this.#opened = this.#open(openStream);
    this.#opened.catch((err: Error) => this.cancel(err));
    this.#sending = this.#opened.then((transport) => this.#packets(transport, packets));
    // If the request cannot be sent, no answer will come.
    this.#sending.catch((err: Error) => this.cancel(err));
  }

  async #open(openStream: () => Duplex | Promise<Duplex>): Promise<DrpcTransport> {
    const duplex = await openStream();
    if (this.#over) {
      duplex.destroy();
      throw this.#over;
    }
    const transport = new DrpcTransport(duplex, this.#settings.maxBytes, {
      packet: (packet) => this.#onPacket(transport, packet),
      end: (error) => this.#queue?.end(this.#over ?? error ?? new DrpcError('the peer closed the stream')),
    });
    this.#queue = new MessageQueue(transport);
    return transport;
  }

  #onPacket(transport: DrpcTransport, { kind, control, streamId, data }: DrpcPacket): void {
    const queue = this.#queue!;
    if (streamId !== 1) transport.fail(new DrpcError('protocol error: a packet of a stream that was not opened'));
    else if (kind === KIND.message) queue.push(data);
    else if (kind === KIND.closeSend || kind === KIND.close) queue.end();
    else if (kind === KIND.error) queue.end(decodeError(data));
    else if (kind === KIND.cancel) queue.end(new DrpcError('the peer canceled the call', 1));
    else if (!control) transport.fail(new DrpcError(`protocol error: unexpected packet kind ${kind}`));
  }

  #encode(message: unknown): Uint8Array[] {
    const { input, name, maxBytes } = this.#settings;
    const data = encodeMessage(input, create(input, message as MessageInitShape<DescMessage>));
    const size = sizeOf(data);
    if (size > maxBytes) {
      throw new DrpcError(`${name}: the message of ${size} bytes exceeds the limit of ${maxBytes}`, 8);
    }
    return data;
  }

  async #packets(transport: DrpcTransport, packets: [number, Uint8Array | readonly Uint8Array[]][]): Promise<void> {
    if (this.#over) throw this.#over;
    await transport.send(
      1,
      packets.map(([kind, data]) => ({ kind, data, messageId: this.#messageId++ })),
    );
  }

  /** Keeps messages in order, however much the stream accepts at a time. */
  #enqueue(packets: [number, Uint8Array | readonly Uint8Array[]][]): Promise<void> {
    const sent = this.#sending.then(async () => this.#packets(await this.#opened, packets));
    this.#sending = sent;
    sent.catch(() => {});
    return sent;
  }

  async send(message: unknown): Promise<void> {
    if (this.#over) throw this.#over;
    if (this.#sendClosed) throw new DrpcError(`${this.#settings.name}: sending was closed already`);
    await this.#enqueue([[KIND.message, this.#encode(message)]]);
  }

  async closeSend(): Promise<void> {
    if (this.#sendClosed || this.#over) return;
    this.#sendClosed = true;
    await this.#enqueue([[KIND.closeSend, EMPTY]]);
  }

  async receive(): Promise<unknown> {
    try {
      await this.#opened;
      const data = await this.#queue!.take();
      if (data === undefined) {
        this.finish();
        return undefined;
      }
      const response = fromBinary(this.#settings.output, data);
      if (this.#settings.oneResponse) this.finish();
      return response;
    } catch (err) {
      this.cancel(err as Error);
      throw this.#over;
    }
  }

  /** Ends a call that the peer has answered: sends Close, then ends the stream. */
  finish(): void {
    if (this.#over) return;
    this.#queue?.end();
    this.#over = OVER;
    this.#cleanup();
    void this.#opened.then((transport) => {
      if (!transport.ended) {
        transport.send(1, [{ kind: KIND.close, messageId: this.#messageId++, data: EMPTY }]).catch(() => {});
      }
      transport.hangUp();
    });
  }

  cancel(reason: Error = new DrpcError('the call was canceled', 1)): void {
    if (this.#over) return;
    this.#over = reason;
    this.#cleanup();
    this.#queue?.end(reason);
    this.#opened.then(
      (transport) => transport.hangUp(),
      () => {},
    );
  }
}

async function* responses(call: ClientCall): AsyncGenerator<unknown> {
  try {
    for (let next = await call.receive(); next !== undefined; next = await call.receive()) yield next;
  } finally {
    call.cancel();
  }
}

async function unary(call: ClientCall, name: string): Promise<unknown> {
  const response = await call.receive();
  if (response === undefined) throw new DrpcError(`${name}: the peer ended without an answer`);
  return response;
}

/**
 * Creates a typed client. Each call opens its own stream with `openStream`. Unary methods reject with DrpcError (the
 * peer's code and text, or code 4 after a timeout), the stream's error, or the signal's reason.
 */
export function createDrpcClient<S extends DescService>(
  service: S,
  openStream: () => Duplex | Promise<Duplex>,
  options: DrpcClientOptions = {},
): DrpcClient<S> {
  const { timeoutMs = 30_000, maxMessageBytes = MAX_MESSAGE_BYTES } = options;
  const client: Record<string, unknown> = {};
  for (const method of service.methods) {
    const name = `/${service.typeName}/${method.name}`;
    const settings: CallSettings = {
      name,
      input: method.input,
      output: method.output,
      oneResponse: method.methodKind === 'unary' || method.methodKind === 'client_streaming',
      maxBytes: maxMessageBytes,
    };
    const start = (callOptions: DrpcCallOptions, first?: { request: unknown }) =>
      new ClientCall(settings, openStream, callOptions, first);
    const handle = (call: ClientCall) => ({
      send: (message: unknown) => call.send(message),
      closeSend: () => call.closeSend(),
      receive: () => call.receive(),
      responses: { [Symbol.asyncIterator]: () => responses(call) },
      cancel: (reason?: Error) => call.cancel(reason),
    });
    switch (method.methodKind) {
      case 'unary':
        client[method.localName] = (request: unknown, callOptions: DrpcCallOptions = {}) =>
          unary(start({ timeoutMs, ...callOptions }, { request }), name);
        break;
      case 'server_streaming':
        client[method.localName] = (request: unknown, callOptions: DrpcCallOptions = {}) =>
          handle(start(callOptions, { request }));
        break;
      default:
        client[method.localName] = (callOptions: DrpcCallOptions = {}) => handle(start(callOptions));
    }
  }
  return client as DrpcClient<S>;
}
