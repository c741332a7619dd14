import type { Duplex } from 'node:stream';
import {
  create,
  type DescMethod,
  type DescMethodBiDiStreaming,
  type DescMethodClientStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { boundsCheck, type MessageBounds } from '../bounds.ts';
import { YamuxSession } from '../yamux/index.ts';
import { MessageBudget } from './budget.ts';
import { encodeMessage, sizeOf } from './encode-message.ts';
import {
  DrpcError,
  type DrpcPacket,
  decodeError,
  decodeMetadata,
  encodeError,
  KIND,
  MAX_MESSAGE_BYTES,
} from './frames.ts';
import { DrpcTransport, MessageQueue } from './transport.ts';

export interface DrpcContext {
  /** Aborted when the caller canceled or disconnected. */
  signal: AbortSignal;
  metadata: Readonly<Record<string, string>>;
  /** Ends the call with Close instead of CloseSend, as upstream's server does for AcquireJobWithCancel. */
  endWithClose(): void;
}

type Returned<T> = T | Promise<T>;

/** A function per method, keyed by camelCase names. Missing ones answer with code 12. */
export type DrpcHandlers<S extends DescService> = {
  [K in keyof S['method']]?: S['method'][K] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, ctx: DrpcContext) => Returned<MessageInitShape<O>>
    : S['method'][K] extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, ctx: DrpcContext) => AsyncIterable<MessageInitShape<O>>
      : S['method'][K] extends DescMethodClientStreaming<infer I, infer O>
        ? (requests: AsyncIterable<MessageShape<I>>, ctx: DrpcContext) => Returned<MessageInitShape<O>>
        : S['method'][K] extends DescMethodBiDiStreaming<infer I, infer O>
          ? (requests: AsyncIterable<MessageShape<I>>, ctx: DrpcContext) => AsyncIterable<MessageInitShape<O>>
          : never;
};

export interface DrpcImplementation {
  service: DescService;
  handlers: Readonly<Record<string, unknown>>;
}

/** Pairs a service with handlers, checked against it by type. */
export function implement<S extends DescService>(service: S, handlers: DrpcHandlers<S>): DrpcImplementation {
  return { service, handlers };
}

export interface ServeDrpcOptions {
  /** Called for each call that failed while its caller was connected. */
  onError?: (error: unknown, method: string) => void;
  /**
   * Maps an error to what the caller receives. Default: DrpcErrors unchanged, the message of other errors with code 0.
   */
  describeError?: (error: unknown, method: string) => { code: number; message: string };
  maxMessageBytes?: number;
  /** The bytes of messages that all calls of the target may hold together. Default: only each call's own limit. */
  maxHeldBytes?: number;
  /** Like maxHeldBytes, as a budget that several targets may share. */
  budget?: MessageBudget;
  /** Limits for each part of a request. Default: only the message's own limit. */
  bounds?: MessageBounds | undefined;
}

interface Route {
  method: DescMethod;
  handler: ((input: unknown, ctx: DrpcContext) => unknown) | undefined;
}

function defaultDescription(error: unknown): { code: number; message: string } {
  if (error instanceof DrpcError) return { code: error.code, message: error.message };
  return { code: 0, message: error instanceof Error ? error.message : String(error) };
}

const EMPTY = new Uint8Array();
/** The code for a request that cannot be decoded: an invalid argument, as in gRPC. */
const UNREADABLE = 3;
/**
 * The ends of calls as their callers usually end them. Shared by all calls: recording a stack for each would cost more than the
 * rest of its end.
 */
const REMOTE_CLOSED = new DrpcError('remote closed the stream', 1);
const CALLER_CLOSED = new DrpcError('the caller closed the stream', 1);

/** One call: the packets of one stream id. */
class ServerCall {
  readonly id: number;
  readonly #transport: DrpcTransport;
  readonly #queue: MessageQueue;
  readonly #abort = new AbortController();
  readonly #maxBytes: number;
  readonly #bounds: MessageBounds | undefined;
  #messageId = 1;
  #over = false;
  #endKind: number = KIND.closeSend;

  constructor(
    id: number,
    transport: DrpcTransport,
    maxBytes: number,
    bounds: MessageBounds | undefined,
    budget: MessageBudget | undefined,
  ) {
    this.id = id;
    this.#transport = transport;
    this.#maxBytes = maxBytes;
    this.#bounds = bounds;
    this.#queue = new MessageQueue(transport, budget);
  }

  onPacket({ kind, control, data }: DrpcPacket): void {
    if (kind === KIND.invoke || kind === KIND.invokeMetadata) {
      this.#transport.fail(new DrpcError('protocol error: invoke on an existing stream'));
    } else if (kind === KIND.message) this.#queue.push(data);
    else if (kind === KIND.closeSend) this.#queue.end();
    else if (kind === KIND.close) this.terminate(REMOTE_CLOSED);
    else if (kind === KIND.error) this.terminate(decodeError(data));
    else if (kind === KIND.cancel) this.terminate(new DrpcError('the caller canceled', 1));
    else if (!control) this.#transport.fail(new DrpcError(`protocol error: unknown packet kind ${kind}`));
  }

  /** Handles a caller that is gone: aborts the handler's signal and sends nothing more. */
  terminate(reason: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#queue.end();
    this.#abort.abort(reason);
    // Messages that nobody will read must not block the transport.
    this.#transport.resume();
  }

  /** Frees what the call held. Called when its handler has ended. */
  release(): void {
    this.#queue.release();
  }

  async run(route: Route, metadata: Readonly<Record<string, string>>): Promise<void> {
    const { method, handler } = route;
    if (!handler) throw new DrpcError('Unimplemented', 12);
    const ctx: DrpcContext = {
      signal: this.#abort.signal,
      metadata,
      endWithClose: () => {
        this.#endKind = KIND.close;
      },
    };
    const single = method.methodKind === 'unary' || method.methodKind === 'server_streaming';
    const input = single ? await this.#request(method) : this.#requests(method);
    this.#abort.signal.throwIfAborted();
    const result = handler(input, ctx);
    if (method.methodKind === 'unary' || method.methodKind === 'client_streaming') {
      const response = this.#encode(method, await result);
      await this.#send([KIND.message, response], [this.#endKind, EMPTY]);
    } else {
      await this.#sendAll(method, result as AsyncIterable<unknown>);
      await this.#send([this.#endKind, EMPTY]);
    }
    this.#finish();
  }

  /** Answers with an error. Returns false if the caller was gone already. */
  async fail({ code, message }: { code: number; message: string }): Promise<boolean> {
    if (this.#over) return false;
    await this.#send([KIND.error, encodeError(code, message)]);
    this.#finish();
    return true;
  }

  #finish(): void {
    this.#over = true;
    this.#queue.end();
    this.#transport.resume();
  }

  async #request(method: DescMethod): Promise<unknown> {
    const data = await this.#queue.take();
    if (data === undefined) throw new DrpcError('the caller sent no request');
    return this.#read(method, data);
  }

  #read(method: DescMethod, data: Uint8Array): unknown {
    let message: unknown;
    try {
      message = fromBinary(method.input, data);
    } catch (err) {
      throw new DrpcError(`The request is not a valid ${method.input.name} message.`, UNREADABLE, { cause: err });
    }
    if (this.#bounds) boundsCheck(method.input, this.#bounds)(message as Message);
    return message;
  }

  async *#requests(method: DescMethod): AsyncGenerator<unknown> {
    for (let data = await this.#queue.take(); data !== undefined; data = await this.#queue.take()) {
      yield this.#read(method, data);
    }
  }

  async #sendAll(method: DescMethod, messages: AsyncIterable<unknown>): Promise<void> {
    const iterator = messages[Symbol.asyncIterator]();
    const { signal } = this.#abort;
    let stop: (reason: unknown) => void = () => {};
    const stopped = () => stop(signal.reason);
    signal.addEventListener('abort', stopped, { once: true });
    try {
      for (;;) {
        const next = await new Promise<IteratorResult<unknown>>((resolve, reject) => {
          stop = reject;
          if (signal.aborted) reject(signal.reason);
          else iterator.next().then(resolve, reject);
        });
        if (next.done) return;
        await this.#send([KIND.message, this.#encode(method, next.value)]);
      }
    } catch (err) {
      // Not awaited: a generator that waits for something else would block this call.
      iterator.return?.()?.catch(() => {});
      throw err;
    } finally {
      signal.removeEventListener('abort', stopped);
    }
  }

  #encode(method: DescMethod, message: unknown): Uint8Array[] {
    const data = encodeMessage(method.output, create(method.output, message as MessageInitShape<typeof method.output>));
    const size = sizeOf(data);
    if (size > this.#maxBytes) {
      throw new DrpcError(`the answer of ${size} bytes exceeds the limit of ${this.#maxBytes}`, 8);
    }
    return data;
  }

  async #send(...packets: [number, Uint8Array | readonly Uint8Array[]][]): Promise<void> {
    if (this.#over) throw this.#abort.signal.reason ?? new DrpcError('the call is over', 1);
    await this.#transport.send(
      this.id,
      packets.map(([kind, data]) => ({ kind, data, messageId: this.#messageId++ })),
    );
  }
}

class ServerTransport {
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #options: ServeDrpcOptions;
  readonly #transport: DrpcTransport;
  readonly #maxBytes: number;
  readonly #budget: MessageBudget | undefined;
  #call: ServerCall | undefined;
  #metadata: { streamId: number; values: Record<string, string> } | undefined;

  constructor(
    duplex: Duplex,
    routes: ReadonlyMap<string, Route>,
    options: ServeDrpcOptions,
    budget: MessageBudget | undefined,
  ) {
    this.#routes = routes;
    this.#options = options;
    this.#maxBytes = options.maxMessageBytes ?? MAX_MESSAGE_BYTES;
    this.#budget = budget;
    const handlers = {
      packet: (packet: DrpcPacket) => this.#onPacket(packet),
      end: (error?: Error) => {
        this.#call?.terminate(callerLeft(error));
        this.#transport.hangUp();
      },
    };
    this.#transport = new DrpcTransport(duplex, this.#maxBytes, handlers, budget);
  }

  #onPacket(packet: DrpcPacket): void {
    const { kind, streamId, data } = packet;
    if (this.#call?.id === streamId) {
      this.#call.onPacket(packet);
      return;
    }
    if (kind !== KIND.invoke && kind !== KIND.invokeMetadata) {
      if (!packet.control) this.#transport.fail(new DrpcError('protocol error: a stream begins without invoke'));
      return;
    }
    // One call at a time on a transport: a newer one ends the previous one.
    this.#call?.terminate(new DrpcError('the caller began another call', 1));
    this.#call = undefined;
    if (kind === KIND.invokeMetadata) {
      this.#metadata = { streamId, values: decodeMetadata(data) };
      return;
    }
    const metadata = this.#metadata?.streamId === streamId ? this.#metadata.values : {};
    this.#metadata = undefined;
    const call = new ServerCall(streamId, this.#transport, this.#maxBytes, this.#options.bounds, this.#budget);
    this.#call = call;
    void this.#run(call, data.toString('utf8'), metadata);
  }

  async #run(call: ServerCall, name: string, metadata: Record<string, string>): Promise<void> {
    const { describeError = defaultDescription, onError } = this.#options;
    try {
      const route = this.#routes.get(name);
      if (!route) throw new DrpcError(`protocol error: unknown rpc: ${JSON.stringify(name)}`);
      await call.run(route, metadata);
    } catch (err) {
      const delivered = await call.fail(describeError(err, name)).catch(() => false);
      if (delivered) onError?.(err, name);
    } finally {
      call.release();
    }
  }
}

/**
 * The reason that handlers get when their caller's stream is over. A broken connection is as ordinary as a closed one, so
 * its error is only the cause. Otherwise it would pass for an unexpected error of the handler.
 */
function callerLeft(error: Error | undefined): DrpcError {
  if (error instanceof DrpcError) return error;
  return error ? new DrpcError(CALLER_CLOSED.message, 1, { cause: error }) : CALLER_CLOSED;
}

/**
 * Serves DRPC on one stream, or on each stream that the session's peer opens. A transport serves calls one after
 * another until the peer ends it, which aborts running handlers.
 */
export function serveDrpc(
  target: YamuxSession | Duplex,
  implementations: readonly DrpcImplementation[],
  options: ServeDrpcOptions = {},
): void {
  const routes = new Map<string, Route>();
  for (const { service, handlers } of implementations) {
    for (const method of service.methods) {
      const handler = handlers[method.localName] as Route['handler'];
      routes.set(`/${service.typeName}/${method.name}`, { method, handler: handler?.bind(handlers) });
    }
  }
  const budget =
    options.budget ?? (options.maxHeldBytes === undefined ? undefined : new MessageBudget(options.maxHeldBytes));
  const serve = (duplex: Duplex) => void new ServerTransport(duplex, routes, options, budget);
  if (target instanceof YamuxSession) target.on('stream', serve);
  else serve(target);
}
