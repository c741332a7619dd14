/** Frames a datagram for a stream: its length as two bytes big-endian, then its bytes. */
export function frameDatagram(datagram: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(2 + datagram.length);
  framed.writeUInt16BE(datagram.length);
  datagram.copy(framed, 2);
  return framed;
}

/** Extracts framed datagrams from a stream that is cut anywhere. Holds at most one, of 64 KiB. */
export class DatagramReader {
  #held: Buffer = Buffer.alloc(0);

  write(chunk: Buffer): Buffer[] {
    let all = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const out: Buffer[] = [];
    while (all.length >= 2 && all.length >= 2 + all.readUInt16BE(0)) {
      const end = 2 + all.readUInt16BE(0);
      out.push(all.subarray(2, end));
      all = all.subarray(end);
    }
    this.#held = Buffer.from(all);
    return out;
  }
}
