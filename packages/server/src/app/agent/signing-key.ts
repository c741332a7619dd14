import type { Hash } from 'node:crypto';
import { systemTask } from '../../authz/proofs.ts';
import { siteValue } from '../../db/queries/site.ts';
import { type Services, systemContext } from '../context/context.ts';
import { detachedSignature, newSigningKey, publicKeyBlock, type SigningKey } from '../values/openpgp.ts';

/** Signs the executables that this installation sends. All its servers have the same key. */
export interface Signer {
  /** The certificate, in ASCII armor. */
  publicKey(): Promise<string>;
  /** A detached signature. `content`: a SHA-256 that has received the file's bytes. It is used up. */
  sign(content: Hash): Promise<string>;
}

const KEY = 'openpgp_signing_key';
/** Keys and signatures are dated back by this, in seconds, for clients whose clock is behind. */
const CLOCK_SKEW = 3_600;

export function createSigner(services: Services): Signer {
  const now = () => Math.floor(services.clock.now().getTime() / 1_000) - CLOCK_SKEW;
  let known: SigningKey | undefined;
  const key = async () => {
    const by = systemTask(systemContext(services, 'signatures of executables'));
    const make = () => JSON.stringify(newSigningKey(`Ropewalk deployment ${services.deploymentId}`, now()));
    known ??= JSON.parse(await siteValue(services.sql, by, KEY, make)) as SigningKey;
    return known;
  };
  return {
    publicKey: async () => publicKeyBlock(await key()),
    async sign(content) {
      const signing = await key();
      // the clock of the server that made the key may have been ahead
      return detachedSignature(signing, content, Math.max(now(), signing.created));
    },
  };
}
