/** What several queues hold together. */
export interface QueueBudget {
  bytes: number;
  maxBytes: number;
}
const unlimited = (): QueueBudget => ({ bytes: 0, maxBytes: Number.POSITIVE_INFINITY });

/**
 * Packets that wait for a slow connection. Full, it drops the oldest, which is the least useful one to its receiver.
 *
 * Of the budget of all connections, no queue holds more than what is left. So there is always room for another queue:
 * with n full queues, each holds 1/(n+1) of the budget.
 */
export class PacketQueue {
  readonly #maxPackets: number;
  readonly #maxBytes: number;
  readonly #all: QueueBudget;
  #key: QueueBudget = unlimited();
  #packets: (Buffer | undefined)[] = [];
  #first = 0;
  #count = 0;
  #bytes = 0;

  /** A packet that alone is larger than `maxBytes` is never queued. `all` is the budget of all connections. */
  constructor(maxPackets: number, maxBytes: number, all: QueueBudget = unlimited()) {
    this.#all = all;
    this.#maxPackets = maxPackets;
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts packets in the budget of all connections of one key, too. Only while the queue is empty. */
  shareWithKey(budget: QueueBudget): void {
    this.#key = budget;
  }

  /** Returns the number of dropped packets, which may include this one. */
  push(packet: Buffer): number {
    if (packet.length > this.#maxBytes) return 1;
    let dropped = 0;
    while (this.#count === this.#maxPackets || this.#bytes + packet.length > this.#maxBytes) {
      this.shift();
      dropped++;
    }
    while (this.#count > 0 && !this.#fits(packet.length)) {
      this.shift();
      dropped++;
    }
    if (!this.#fits(packet.length)) return dropped + 1;
    if (this.#packets.length === 0) this.#packets = new Array<Buffer | undefined>(this.#maxPackets);
    this.#packets[(this.#first + this.#count) % this.#maxPackets] = packet;
    this.#count++;
    this.#add(packet.length);
    return dropped;
  }

  /** Removes the oldest packet. */
  shift(): Buffer | undefined {
    if (this.#count === 0) return undefined;
    const packet = this.#packets[this.#first]!;
    this.#packets[this.#first] = undefined;
    this.#first = (this.#first + 1) % this.#maxPackets;
    this.#count--;
    this.#add(-packet.length);
    return packet;
  }

  clear(): void {
    this.#packets = [];
    this.#first = 0;
    this.#count = 0;
    this.#add(-this.#bytes);
  }

  #fits(length: number): boolean {
    const left = this.#all.maxBytes - this.#all.bytes - length;
    return this.#bytes + length <= left && this.#key.bytes + length <= this.#key.maxBytes;
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#key.bytes += bytes;
    this.#all.bytes += bytes;
  }
}
