import { DerpFrameReader } from '../derp/frames.ts';
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
