import { Duplex } from 'node:stream';
import { NetworkError } from '../network.ts';
import type { Connection, ConnectionEvents } from './connection.ts';

const WRITABLE_BYTES = 64 * 1024;
type Done = (error?: Error | null) => void;

/**
 * A TCP connection as a stream. `end` sends a FIN, and the peer may still send (`allowHalfOpen`). `finish` means that the
 * peer has acknowledged everything. `destroy` resets the connection unless both sides have ended it.
 * Errors are NetworkErrors: ECONNRESET, ETIMEDOUT.
 */
export class TcpStream extends Duplex implements ConnectionEvents {
  readonly #connection: Connection;
  #isWanted = false;
  #isAtEnd = false;
  #written: Done | undefined;
  #finished: Done | undefined;

  constructor(connection: Connection) {
    super({ allowHalfOpen: true, writableHighWaterMark: WRITABLE_BYTES, readableHighWaterMark: WRITABLE_BYTES });
    this.#connection = connection;
    connection.attach(this);
    // a peer's reset must not end the process if nobody listens
    this.on('error', () => {});
  }

  /** The peer's address, 16 bytes. */
  get remoteAddress(): Buffer {
    return this.#connection.route.peer;
  }

  get remotePort(): number {
    return this.#connection.route.peerPort;
  }

  /** The own address, 16 bytes. */
  get localAddress(): Buffer {
    return this.#connection.route.address;
  }

  get localPort(): number {
    return this.#connection.route.port;
  }

  /** The connection itself, for measurements. */
  get connection(): Connection {
    return this.#connection;
  }

  /**
   * After `idleMs` without a packet, asks the peer whether it is there, and again every `intervalMs`. Destroys the stream
   * (ETIMEDOUT) after 9 questions without an answer. The default is 2 hours, then 75 s. 0: never.
   */
  setKeepAlive(idleMs: number, intervalMs?: number): this {
    this.#connection.setKeepAlive(idleMs, intervalMs);
    return this;
  }

  override _read(): void {
    this.#isWanted = true;
    this.#pump();
  }

  override _write(chunk: Buffer, _encoding: string, done: Done): void {
    if (this.#write([chunk])) this.#afterWrite(done);
    else done(new NetworkError('EPIPE', 'The connection has ended'));
  }

  override _writev(chunks: { chunk: Buffer }[], done: Done): void {
    if (this.#write(chunks.map(({ chunk }) => chunk))) this.#afterWrite(done);
    else done(new NetworkError('EPIPE', 'The connection has ended'));
  }

  override _final(done: Done): void {
    this.#connection.end();
    if (this.#connection.isFinished || this.#connection.state === 'closed') done();
    else this.#finished = done;
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#connection.abort();
    this.#written = undefined;
    this.#finished = undefined;
    done(error);
  }

  #write(chunks: readonly Buffer[]): boolean {
    if (this.#connection.state !== 'open') return false;
    for (const chunk of chunks) this.#connection.write(chunk);
    return true;
  }

  #afterWrite(done: Done): void {
    if (this.#connection.isWritable) done();
    else this.#written = done;
  }

  #pump(): void {
    while (this.#isWanted) {
      const chunk = this.#connection.read();
      if (!chunk) break;
      this.#isWanted = this.push(chunk);
    }
    if (this.#isAtEnd || !this.#connection.isAtEnd || this.destroyed) return;
    this.#isAtEnd = true;
    this.push(null);
  }

  onOpen(): void {}

  onReadable(): void {
    this.#pump();
  }

  onWritable(): void {
    const done = this.#written;
    this.#written = undefined;
    done?.();
  }

  onFinished(): void {
    const done = this.#finished;
    this.#finished = undefined;
    done?.();
  }

  onFailed(error: NetworkError): void {
    this.destroy(error);
  }
}
