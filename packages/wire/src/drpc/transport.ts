import type { Duplex } from 'node:stream';
import { DrpcDecoder, DrpcError, type DrpcPacket, encodePacket, type Holding } from './frames.ts';

export interface TransportHandlers {
  packet(packet: DrpcPacket): void;
  /** Called once: the peer ended, the stream broke (`error`), or this side closed it. */
  end(error?: Error): void;
}

/** How long the peer may take to end its direction after we ended ours, in ms. */
const LINGER_MS = 10_000;

/** Sends and receives DRPC packets over one duplex stream, which it owns from now on. */
export class DrpcTransport {
  readonly #duplex: Duplex;
  readonly #handlers: TransportHandlers;
  readonly #decoder: DrpcDecoder;
  #ended = false;
  #hungUp = false;

  constructor(duplex: Duplex, maxMessageBytes: number, handlers: TransportHandlers, holding?: Holding) {
    this.#duplex = duplex;
    this.#handlers = handlers;
    const taken = (packet: DrpcPacket) => {
      if (!this.#ended) handlers.packet(packet);
    };
    this.#decoder = new DrpcDecoder(maxMessageBytes, taken, holding);
    duplex.on('data', (chunk: Buffer) => {
      if (this.#ended) return;
      try {
        this.#decoder.push(chunk);
      } catch (err) {
        if (!(err instanceof DrpcError)) throw err;
        this.fail(err);
      }
    });
    duplex.on('end', () => this.#end());
    duplex.on('error', (err) => this.#end(err));
    duplex.on('close', () => this.#end());
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Writes packets in one go. Resolves when the stream accepts more. Rejects when the stream is over. */
  async send(
    streamId: number,
    packets: readonly { kind: number; messageId: number; data: Uint8Array | readonly Uint8Array[] }[],
  ): Promise<void> {
    const duplex = this.#duplex;
    if (this.#hungUp || duplex.destroyed || duplex.writableEnded) throw new DrpcError('the stream is closed');
    duplex.cork();
    for (const { kind, messageId, data } of packets) {
      for (const buffer of encodePacket(kind, streamId, messageId, data)) duplex.write(buffer);
    }
    duplex.uncork();
    if (duplex.writableNeedDrain) await drained(duplex);
  }

  pause(): void {
    this.#duplex.pause();
  }

  resume(): void {
    if (!this.#ended) this.#duplex.resume();
  }

  /** Ends our direction after pending writes, and discards what the peer still sends. */
  hangUp(): void {
    if (this.#hungUp) return;
    this.#hungUp = true;
    const duplex = this.#duplex;
    this.#end();
    if (duplex.destroyed) return;
    duplex.end();
    duplex.resume();
    const timer = setTimeout(() => duplex.destroy(), LINGER_MS).unref();
    duplex.once('close', () => clearTimeout(timer));
  }

  /** Drops the stream because the peer broke the protocol. */
  fail(error: Error): void {
    this.#end(error);
    this.#duplex.destroy(error);
  }

  #end(error?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#decoder.close();
    this.#handlers.end(error);
  }
}

function drained(duplex: Duplex): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      duplex.off('drain', done);
      duplex.off('close', closed);
      resolve();
    };
    const closed = () => {
      duplex.off('drain', done);
      reject(new DrpcError('the stream is closed'));
    };
    duplex.once('drain', done);
    duplex.once('close', closed);
  });
}

// Enough for messages that a peer sends ahead. Beyond it the stream's window limits the peer.
const QUEUE_MESSAGES = 64;
const QUEUE_BYTES = 256 * 1024;

/**
 * Queues received messages and the end that follows them. The queue accounts for its messages and for the last one
 * taken, until the next is taken or all are released.
 */
export class MessageQueue {
  readonly #transport: DrpcTransport;
  readonly #holding: Holding | undefined;
  #held = 0;
  #taken = 0;
  #items: Buffer[] = [];
  #bytes = 0;
  #over = false;
  #error: Error | undefined;
  #takers: { resolve: (item: Buffer | undefined) => void; reject: (err: Error) => void }[] = [];

  constructor(transport: DrpcTransport, holding?: Holding) {
    this.#transport = transport;
    this.#holding = holding;
  }

  push(item: Buffer): void {
    if (this.#over) return;
    this.#holding?.take(item.length);
    this.#held += item.length;
    const taker = this.#takers.shift();
    if (taker) {
      this.#taken = item.length;
      taker.resolve(item);
      return;
    }
    this.#items.push(item);
    this.#bytes += item.length;
    if (this.#items.length >= QUEUE_MESSAGES || this.#bytes >= QUEUE_BYTES) this.#transport.pause();
  }

  /** Ends the queue. With an error, callers of `take` get it after the queued messages. */
  end(error?: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#error = error;
    for (const taker of this.#takers.splice(0)) {
      if (error) taker.reject(error);
      else taker.resolve(undefined);
    }
  }

  /** The next message. Undefined at the end. Rejects with the error that ended the stream. */
  take(): Promise<Buffer | undefined> {
    this.#give(this.#taken);
    this.#taken = 0;
    const item = this.#items.shift();
    if (item) {
      this.#taken = item.length;
      this.#bytes -= item.length;
      if (this.#items.length < QUEUE_MESSAGES && this.#bytes < QUEUE_BYTES) this.#transport.resume();
      return Promise.resolve(item);
    }
    if (this.#over) return this.#error ? Promise.reject(this.#error) : Promise.resolve(undefined);
    return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
  }

  /** Frees all messages. Called when nobody uses a message of this call any more. */
  release(): void {
    this.#items = [];
    this.#give(this.#held);
  }

  #give(bytes: number): void {
    this.#held -= bytes;
    this.#holding?.give(bytes);
  }
}
