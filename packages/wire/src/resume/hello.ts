import type { Duplex } from 'node:stream';
import { readPreamble, type TunnelOptions } from '../tunnel.ts';
import { ResumeError } from './error.ts';

/** Identifies a client on each connection. */
export interface ResumeHello {
  kind: 'new' | 'attach';
  /** 16 bytes. A name, not a secret. */
  id: Buffer;
  /** 32 bytes that only the client and the other end have. */
  secret: Buffer;
  /** How many of the session's bytes the client has received. 0 for a new session. */
  received: number;
}

const VERSION = 1;
const ID = 16;
const SECRET = 32;
const HELLO = 2 + ID + SECRET + 8;
const MAX_REFUSAL = 1024;

export function encodeHello({ kind, id, secret, received }: ResumeHello): Buffer {
  const tail = Buffer.alloc(8);
  tail.writeBigUInt64BE(BigInt(received));
  return Buffer.concat([Buffer.from([VERSION, kind === 'new' ? 0 : 1]), id, secret, tail]);
}

/** Reads the client's hello. Throws ResumeError or TunnelError, and destroys the connection then. */
export async function readHello(connection: Duplex, options: TunnelOptions = {}): Promise<ResumeHello> {
  const raw = await readPreamble(
    connection,
    (head) => {
      if (head.length >= 1 && head[0] !== VERSION) throw new ResumeError('protocol', `unknown version ${head[0]}`);
      if (head.length >= 2 && head[1]! > 1) throw new ResumeError('protocol', `unknown kind ${head[1]}`);
      return HELLO;
    },
    options,
  );
  return {
    kind: raw[1] === 0 ? 'new' : 'attach',
    id: raw.subarray(2, 2 + ID),
    secret: raw.subarray(2 + ID, 2 + ID + SECRET),
    received: Number(raw.readBigUInt64BE(2 + ID + SECRET)),
  };
}

/** Encodes the answer to an attach. A new session needs none. */
export function encodeWelcome(received: number): Buffer {
  const answer = Buffer.alloc(9);
  answer.writeBigUInt64BE(BigInt(received), 1);
  return answer;
}

export function encodeRefusal(text: string): Buffer {
  const body = Buffer.from(text.slice(0, MAX_REFUSAL / 4));
  return Buffer.concat([Buffer.from([1, body.length >> 8, body.length & 255]), body]);
}

/**
 * Reads how many bytes the other end has received. Throws ResumeError('refused') with the peer's reason, or
 * TunnelError, and destroys the connection then.
 */
export async function readWelcome(connection: Duplex, options: TunnelOptions = {}): Promise<number> {
  const raw = await readPreamble(
    connection,
    (head) => {
      if (head.length < 1) return 1;
      if (head[0] === 0) return 9;
      if (head[0] !== 1) throw new ResumeError('protocol', `unknown answer ${head[0]}`);
      if (head.length < 3) return 3;
      const length = head.readUInt16BE(1);
      if (length > MAX_REFUSAL) throw new ResumeError('protocol', 'the rejection is too long');
      return 3 + length;
    },
    options,
  );
  if (raw[0] === 0) return Number(raw.readBigUInt64BE(1));
  connection.destroy();
  throw new ResumeError('refused', raw.subarray(3).toString('utf8'));
}
