/** What all queues of a relay hold together. */
export interface QueueBudget {
  bytes: number;
  readonly maxBytes: number;
}

/** Packets that wait for a slow connection. Full, it drops the oldest, which is the least useful one to its receiver. */
export class PacketQueue {
  readonly #maxPackets: number;
  readonly #maxBytes: number;
  readonly #budget: QueueBudget;
  #packets: (Buffer | undefined)[] = [];
  #first = 0;
  #count = 0;
  #bytes = 0;

  /** A packet that alone is larger than `maxBytes` is never queued. `budget` is unlimited by default. */
  constructor(
    maxPackets: number,
    maxBytes: number,
    budget: QueueBudget = { bytes: 0, maxBytes: Number.POSITIVE_INFINITY },
  ) {
    this.#budget = budget;
    this.#maxPackets = maxPackets;
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the number of dropped packets, which may include this one. */
  push(packet: Buffer): number {
    if (packet.length > this.#maxBytes) return 1;
    let dropped = 0;
    while (this.#count === this.#maxPackets || this.#bytes + packet.length > this.#maxBytes) {
      this.shift();
      dropped++;
    }
    while (this.#count > 0 && this.#budget.bytes + packet.length > this.#budget.maxBytes) {
      this.shift();
      dropped++;
    }
    if (this.#budget.bytes + packet.length > this.#budget.maxBytes) return dropped + 1;
    if (this.#packets.length === 0) this.#packets = new Array<Buffer | undefined>(this.#maxPackets);
    this.#packets[(this.#first + this.#count) % this.#maxPackets] = packet;
    this.#count++;
    this.#bytes += packet.length;
    this.#budget.bytes += packet.length;
    return dropped;
  }

  /** Removes the oldest packet. */
  shift(): Buffer | undefined {
    if (this.#count === 0) return undefined;
    const packet = this.#packets[this.#first]!;
    this.#packets[this.#first] = undefined;
    this.#first = (this.#first + 1) % this.#maxPackets;
    this.#count--;
    this.#bytes -= packet.length;
    this.#budget.bytes -= packet.length;
    return packet;
  }

  clear(): void {
    this.#packets = [];
    this.#first = 0;
    this.#count = 0;
    this.#budget.bytes -= this.#bytes;
    this.#bytes = 0;
  }
}
