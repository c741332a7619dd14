// How two servers of a deployment prove to each other who they are. Each process makes an Ed25519 key when it starts, and a
// new one each day, and publishes the public key in its database row. The server that dials signs both ids, the time and a
// nonce. The other one checks the signature against the row, accepts each nonce once, and signs the nonce in its answer. So
// a process that cannot write to the database cannot take the place of a server, and a recorded request is worth nothing.
// A certificate in the row does the same for TLS, where servers have a listener for each other (--cluster-address).
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '@ropewalk/kit';
import { type Certified, createCertificate } from '@ropewalk/kit/certificate';
import { isSigned } from '../app/values/ed25519.ts';

/** How far apart the clocks of two servers may be, in ms. */
const MAX_CLOCK_DIFFERENCE = 60_000;
/** Nonces that are remembered. More requests within a minute are an attack. */
const MAX_NONCES = 10_000;
const HEADER = {
  from: 'platform-replica-from',
  to: 'platform-replica-to',
  time: 'platform-replica-time',
  nonce: 'platform-replica-nonce',
  signature: 'platform-replica-signature',
};

/** How long a certificate is valid, in ms: far longer than a key is used. */
const VALID_MS = 30 * 24 * 3_600_000;

/** The public halves of a server's keys, for its database row. */
export interface PublishedKeys {
  /** Ed25519, SPKI in DER. */
  publicKey: Buffer;
  /** What it presents where servers speak TLS with each other, as PEM. It is valid for the server's id. */
  certificate: string;
}

interface Keys {
  publicKey: Buffer;
  privateKey: KeyObject;
  tls: Certified;
}

/** The keys of this process. The private halves never leave it. */
export class ReplicaKey {
  readonly #id: string;
  readonly #onRenewed: (() => void)[] = [];
  #keys: Keys;

  /** `id`: of the server. */
  constructor(id: string) {
    this.#id = id;
    this.#keys = makeKeys(id);
  }

  get published(): PublishedKeys {
    return publicHalves(this.#keys);
  }

  /** The certificate and its key, as PEM. */
  get tls(): Certified {
    return this.#keys.tls;
  }

  sign(text: string): string {
    return sign(null, Buffer.from(text), this.#keys.privateKey).toString('base64url');
  }

  /** Replaces the keys once `publish` has stored the new ones. If it rejects, the old keys stay. */
  async renew(publish: (keys: PublishedKeys) => Promise<void>): Promise<void> {
    const keys = makeKeys(this.#id);
    await publish(publicHalves(keys));
    this.#keys = keys;
    for (const listener of this.#onRenewed) listener();
  }

  onRenewed(listener: () => void): void {
    this.#onRenewed.push(listener);
  }
}

function makeKeys(id: string): Keys {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { cert, key } = createCertificate({ name: id, hosts: [id], validMs: VALID_MS });
  return {
    publicKey: publicKey.export({ type: 'spki', format: 'der' }),
    privateKey,
    tls: { cert, key },
  };
}

const publicHalves = ({ publicKey, tls }: Keys): PublishedKeys => ({ publicKey, certificate: tls.cert });

interface Hello {
  from: string;
  to: string;
  time: string;
  nonce: string;
}
const question = ({ from, to, time, nonce }: Hello) => `replica-stream/1 ${from} ${to} ${time} ${nonce}`;
const answer = ({ from, to, nonce }: Hello) => `replica-stream/1 accepted ${to} ${from} ${nonce}`;

/** The headers of one request to another server, and the check of its answer. */
export function greet(
  key: ReplicaKey,
  { from, to, now }: { from: string; to: string; now: Date },
): { headers: Record<string, string>; isAnswered(headers: IncomingHttpHeaders, publicKey: Buffer): boolean } {
  const hello = { from, to, time: String(now.getTime()), nonce: randomBytes(18).toString('base64url') };
  return {
    headers: {
      [HEADER.from]: from,
      [HEADER.to]: to,
      [HEADER.time]: hello.time,
      [HEADER.nonce]: hello.nonce,
      [HEADER.signature]: key.sign(question(hello)),
    },
    isAnswered: (headers, publicKey) => isSigned(publicKey, answer(hello), String(headers[HEADER.signature] ?? '')),
  };
}

/** Checks requests of other servers. One per process. */
export class Greetings {
  readonly #id: string;
  readonly #key: ReplicaKey;
  /** Nonces with the times, in ms since 1970, until which their requests would be accepted. */
  readonly #used = new Map<string, number>();

  constructor(id: string, key: ReplicaKey) {
    this.#id = id;
    this.#key = key;
  }

  /**
   * @param publicKeyOf finds the key of a live server by its id
   * @returns the id of the server that asks, and the headers of the answer
   * @throws AppError `conflict` if the request is for another server, `unauthenticated` if it proves nothing
   */
  async check(
    headers: IncomingHttpHeaders,
    now: Date,
    publicKeyOf: (id: string) => Promise<Buffer | undefined>,
  ): Promise<{ from: string; headers: Record<string, string> }> {
    const [from, to, time, nonce, signature] = Object.values(HEADER).map((name) => String(headers[name] ?? ''));
    const hello = { from: from!, to: to!, time: time!, nonce: nonce! };
    if (hello.to !== this.#id) throw new AppError('conflict', 'Another server answers at this address.');
    const sent = Number(hello.time);
    if (!(Math.abs(now.getTime() - sent) <= MAX_CLOCK_DIFFERENCE))
      throw new AppError('unauthenticated', 'The clocks of the two servers differ by more than a minute.');
    const publicKey = await publicKeyOf(hello.from);
    if (!publicKey || !isSigned(publicKey, question(hello), signature!))
      throw new AppError('unauthenticated', 'This is not a server of this deployment.');
    this.#useOnce(hello.nonce, sent + MAX_CLOCK_DIFFERENCE, now.getTime());
    return { from: hello.from, headers: { [HEADER.signature]: this.#key.sign(answer(hello)) } };
  }

  #useOnce(nonce: string, until: number, now: number): void {
    if (this.#used.has(nonce)) throw new AppError('unauthenticated', 'This request was sent before.');
    for (const [old, end] of this.#used) if (end < now) this.#used.delete(old);
    if (this.#used.size >= MAX_NONCES) throw new AppError('rate_limited', 'Too many connections of other servers.');
    this.#used.set(nonce, until);
  }
}
