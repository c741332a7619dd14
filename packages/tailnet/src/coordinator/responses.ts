import { create } from '@bufbuild/protobuf';
import {
  type CoordinateResponse,
  type CoordinateResponse_PeerUpdate,
  CoordinateResponseSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
} from '@ropewalk/wire/proto/tailnet';

const MAX_UPDATES_PER_RESPONSE = 1_024;
/** With more entries than this, a reader lags, and updates are joined to larger responses. */
const MAX_SEPARATE = 64;

interface Entry {
  /** An update, or an error. */
  content: CoordinateResponse_PeerUpdate | string;
  /** Updates of the same batch belong to one response. */
  readonly batch: number;
  /** The reader does not have the peer that this update is about. */
  readonly isFirst: boolean;
}

/**
 * The responses that wait for one peer, read as they come. It ends after the last one.
 *
 * Of the updates about a peer only the newest waits, at the place of the first. So the queue has at most one entry per
 * peer, and one more for its readiness. An end that follows an introduction which has not been read cancels it.
 */
export class ResponseQueue implements AsyncIterable<CoordinateResponse> {
  readonly #max: number;
  readonly #waiting = new Map<string, Entry>();
  /** Entries that are neither the node nor the readiness of a peer. Nothing else limits their number. */
  #limited = 0;
  #batch = 0;
  #errors = 0;
  #ended = false;
  #wake: () => void = () => {};

  /** `max` limits errors and ends of peers. Nodes are limited by the number of tunnels. */
  constructor(max: number) {
    this.#max = max;
  }

  /** The number of entries. */
  get length(): number {
    return this.#waiting.size;
  }

  /** Begins a new batch. */
  startBatch(): void {
    this.#batch++;
  }

  /** Adds an error, which is a separate response. Returns false if the queue is full. Nothing is added after the end. */
  error(error: string): boolean {
    return this.#add(`error ${this.#errors++}`, { content: error, batch: ++this.#batch, isFirst: false });
  }

  /**
   * Adds an update about the peer with this name to the current batch. Returns false if the queue is full. `isFirst`: the
   * reader does not have the peer. Nothing is added after the end.
   */
  update(name: string, update: CoordinateResponse_PeerUpdate, isFirst = false): boolean {
    const ready = `${name} ready`;
    if (update.kind === Kind.READY_FOR_HANDSHAKE) {
      if (this.#waiting.has(ready)) return true;
      return this.#add(ready, { content: update, batch: this.#batch, isFirst });
    }
    const old = this.#waiting.get(name);
    if (update.kind !== Kind.NODE) this.#waiting.delete(ready);
    if (!old) return this.#add(name, { content: update, batch: this.#batch, isFirst });
    if (update.kind !== Kind.NODE && old.isFirst) {
      this.#waiting.delete(name);
      return true;
    }
    this.#limited += Number(isLimited(update)) - Number(isLimited(old.content));
    old.content = update;
    return true;
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CoordinateResponse, void, undefined> {
    for (;;) {
      const response = this.#take();
      if (response) yield response;
      else if (this.#ended) return;
      else {
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
      }
    }
  }

  #add(key: string, entry: Entry): boolean {
    if (this.#ended) return true;
    if (isLimited(entry.content)) {
      if (this.#limited >= this.#max) return false;
      this.#limited++;
    }
    this.#waiting.set(key, entry);
    this.#wake();
    return true;
  }

  #take(): CoordinateResponse | undefined {
    const peerUpdates: CoordinateResponse_PeerUpdate[] = [];
    const lags = this.#waiting.size > MAX_SEPARATE;
    let batch: number | undefined;
    for (const [key, entry] of this.#waiting) {
      const { content } = entry;
      const isError = typeof content === 'string';
      const isNext = batch !== undefined && (isError || (entry.batch !== batch && !lags));
      if (isNext || peerUpdates.length === MAX_UPDATES_PER_RESPONSE) break;
      this.#waiting.delete(key);
      if (isLimited(content)) this.#limited--;
      if (isError) return create(CoordinateResponseSchema, { error: content });
      peerUpdates.push(content);
      batch = entry.batch;
    }
    return batch === undefined ? undefined : create(CoordinateResponseSchema, { peerUpdates });
  }
}

function isLimited(content: Entry['content']): boolean {
  return typeof content === 'string' || (content.kind !== Kind.NODE && content.kind !== Kind.READY_FOR_HANDSHAKE);
}
