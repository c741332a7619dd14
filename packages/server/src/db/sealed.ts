declare const sealed: unique symbol;

/**
 * A secret as it is stored: encrypted if the server has keys (app/context/vault.ts), with the key's fingerprint in front. It is a
 * text at run time. Only the vault makes one and reads it, so the type is not a string's.
 */
export interface Sealed {
  readonly [sealed]: true;
}

/** How an encrypted secret begins. The fingerprint of its key follows, then a colon and base64. */
export const SEALED_PREFIX = 'sealed:';

/** The text in the database, to compare it or to store it again. */
export const storedText = (secret: Sealed): string => secret as unknown as string;

/** Whether there is a secret. An empty one is never encrypted. */
export const isStored = (secret: Sealed): boolean => storedText(secret) !== '';
