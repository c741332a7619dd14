import type { Duplex } from 'node:stream';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { Box } from '../box.ts';
import { DerpFrameReader, decodeServerKey, encodeClientInfo, FRAME } from '../derp/frames.ts';
import { KeyPair } from '../keys.ts';
import { fromHex, vectors } from './vectors.ts';

interface Recorded {
  private: string;
  session: { dir: 'client' | 'server'; hex: string }[];
}

const recorded = vectors<{ serverPrivate: string; clientA: Recorded; clientB: Recorded; meshClient: Recorded }>('derp');

/** One client's side of a recorded session: its key pair and every frame of both directions, in order. */
export interface RecordedSide {
  pair: KeyPair;
  frames: { dir: 'client' | 'server'; frame: Buffer }[];
}

function sideOf({ private: key, session }: Recorded): RecordedSide {
  const frames: RecordedSide['frames'] = [];
  const readers = {
    client: new DerpFrameReader((_type, frame) => frames.push({ dir: 'client', frame })),
    server: new DerpFrameReader((_type, frame) => frames.push({ dir: 'server', frame })),
  };
  for (const { dir, hex } of session) readers[dir].push(fromHex(hex));
  return { pair: KeyPair.fromPrivateKey(fromHex(key)), frames };
}

/** The recorded sessions of two clients and of another relay with one relay. */
export const derpVectors = {
  server: KeyPair.fromPrivateKey(fromHex(recorded.serverPrivate)),
  a: sideOf(recorded.clientA),
  b: sideOf(recorded.clientB),
  mesh: sideOf(recorded.meshClient),
};

/** A client that writes and reads raw frames. `stream` is its end of the connection. */
export class RawClient {
  readonly stream: Duplex;
  readonly received: Buffer[] = [];

  constructor(stream: Duplex) {
    this.stream = stream;
    const reader = new DerpFrameReader((_type, frame) => this.received.push(Buffer.from(frame)));
    stream.on('data', (chunk: Buffer) => reader.push(chunk));
    stream.on('error', () => {});
  }

  /** The received frames of a type, in order. */
  of(type: number): Buffer[] {
    return this.received.filter((frame) => frame[0] === type);
  }

  /** Waits for the next frame of a type that `skip` others of it precede. */
  async frame(type: number, skip = 0): Promise<Buffer> {
    await eventually(() => this.of(type).length > skip, `frame ${type}`, 5_000);
    return this.of(type)[skip]!;
  }

  /** Signs in, and sends `more` frames in the same piece. */
  async signIn(keys: KeyPair, ...more: Buffer[]): Promise<void> {
    const box = Box.between(keys, decodeServerKey(await this.frame(FRAME.serverKey)))!;
    const info = encodeClientInfo(keys.publicKey, box, { canAckPings: true, isProber: false });
    this.stream.write(Buffer.concat([info, ...more]));
    await this.frame(FRAME.serverInfo);
  }
}
