declare const sealed: unique symbol;

/**
 * A secret as it is stored: encrypted if the server has keys (app/vault.ts), with the key's fingerprint in front. Only
 * the vault makes it and reads it.
 */
export type Sealed = string & { readonly [sealed]: true };

/** How an encrypted secret begins. The fingerprint of its key follows, then a colon and base64. */
export const SEALED_PREFIX = 'sealed:';
