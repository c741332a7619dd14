import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import { SEALED_PREFIX, type Sealed, storedText } from '../../db/sealed.ts';

/**
 * Encrypts secrets of other services before they are stored, and decrypts them: tokens of identity providers and of
 * external auth providers, and private keys for Git.
 */
export interface Vault {
  /** Encrypts with the first key. Without keys, the text stays as it is, and so does an empty text. */
  seal(text: string): Sealed;
  /** @throws AppError `internal` if the text was changed, or encrypted with a key that the vault does not have */
  open(stored: Sealed): string;
  /** The fingerprint of the key that a stored secret needs. Undefined for one that is not encrypted. */
  keyOf(stored: Sealed): string | undefined;
  /** The fingerprints of its keys. The first one encrypts. */
  fingerprints: readonly string[];
}

const ALGORITHM = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** @throws AppError `invalid` if a key is not 32 bytes in base64 */
export function createVault(keys: readonly string[], option = '--external-token-encryption-keys'): Vault {
  const known = new Map(
    keys.map((text, at) => {
      const key = Buffer.from(text, 'base64');
      // the text itself is secret
      if (key.length !== KEY_BYTES) {
        throw new AppError(
          'invalid',
          `Key ${at + 1} of ${option} has ${key.length} bytes, not ${KEY_BYTES}. Create a key with: openssl rand -base64 32`,
        );
      }
      return [createHash('sha256').update(key).digest('hex').slice(0, 16), key];
    }),
  );
  const fingerprints = [...known.keys()];
  const [first] = fingerprints;
  const sealed = (text: string) => text as unknown as Sealed;
  const keyOf = (stored: Sealed): string | undefined => {
    const text = storedText(stored);
    return text.startsWith(SEALED_PREFIX) ? text.slice(SEALED_PREFIX.length).split(':')[0] : undefined;
  };
  return {
    fingerprints,
    keyOf,
    seal(text) {
      if (first === undefined || text === '') return sealed(text);
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, known.get(first)!, nonce);
      const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return sealed(`${SEALED_PREFIX}${first}:${bytes.toString('base64')}`);
    },
    open(stored) {
      const fingerprint = keyOf(stored);
      const text = storedText(stored);
      if (fingerprint === undefined) return text;
      const key = known.get(fingerprint);
      if (!key)
        throw new AppError('internal', `A secret is encrypted with the key ${fingerprint}, which is not configured.`);
      const bytes = Buffer.from(text.slice(SEALED_PREFIX.length + fingerprint.length + 1), 'base64');
      try {
        const cipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
        cipher.setAuthTag(bytes.subarray(-TAG_BYTES));
        return cipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + cipher.final('utf8');
      } catch (cause) {
        throw new AppError('internal', 'A stored secret cannot be decrypted: it was changed in the database.', {
          cause,
        });
      }
    },
  };
}
