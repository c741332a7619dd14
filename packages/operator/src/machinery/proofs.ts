// Proofs that the operator itself wrote something into an object that others may change. What is written there decides which
// keys it deletes on the server: without a proof, a person who may write Secrets of one namespace could name the key of
// another. The Secret with which it proves is in the operator's own namespace.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { errorText, type Logger } from '@ropewalk/kit';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import type { Secret } from '../kube/objects.ts';
import { SECRETS } from '../kube/types.ts';
import { pause } from './informer.ts';

const NAME = 'coder-operator-proofs';
const BYTES = 32;
const AGAIN_MS = 1_000;

export interface Proofs {
  /** Resolves when the other two can be called. */
  readonly ready: Promise<void>;
  /** A proof of these words, in this order. */
  of(words: readonly string[]): string;
  holds(proof: unknown, words: readonly string[]): boolean;
}

/** Reads or creates the Secret, again until it succeeds or `signal` fires. */
export function createProofs(
  client: KubeClient,
  { namespace, log, signal }: { namespace: string; log: Logger; signal: AbortSignal },
): Proofs {
  let secret: Buffer | undefined;
  const load = async () => {
    while (!signal.aborted) {
      try {
        secret = await readOrCreate(client, namespace);
        return;
      } catch (err) {
        log.warn('could not read the Secret of proofs; trying again', { name: NAME, err: errorText(err) });
        await pause(AGAIN_MS, signal);
      }
    }
  };
  const of = (words: readonly string[]) => createHmac('sha256', secret!).update(JSON.stringify(words)).digest('hex');
  return {
    ready: load(),
    of,
    holds(proof, words) {
      const expected = Buffer.from(of(words));
      const given = Buffer.from(String(proof));
      return given.length === expected.length && timingSafeEqual(given, expected);
    },
  };
}

async function readOrCreate(client: KubeClient, namespace: string): Promise<Buffer> {
  for (;;) {
    try {
      const { data } = await client.get<Secret>(SECRETS, namespace, NAME);
      const bytes = Buffer.from(data?.['key'] ?? '', 'base64');
      if (bytes.length === BYTES) return bytes;
      throw new Error(`the Secret "${NAME}" has no key of ${BYTES} bytes: delete it`);
    } catch (err) {
      if (!isNotFound(err)) throw err;
    }
    try {
      const data = { key: randomBytes(BYTES).toString('base64') };
      await client.create<Secret>(SECRETS, { metadata: { namespace, name: NAME }, type: 'Opaque', data });
    } catch (err) {
      if (!isConflict(err)) throw err;
    }
  }
}
