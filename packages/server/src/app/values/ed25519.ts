import { createPublicKey, verify } from 'node:crypto';

/** Whether the signature, in base64url, is that of the text. `publicKey`: SPKI in DER. */
export function isSigned(publicKey: Buffer, text: string, signature: string): boolean {
  try {
    const key = createPublicKey({ key: publicKey, type: 'spki', format: 'der' });
    return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'));
  } catch {
    return false;
  }
}
