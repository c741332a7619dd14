import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import type { AppKind } from '../values/app-address.ts';
import { sameBytes } from '../values/token.ts';

/** The permission to use an app for a moment, with everything that the proxy needs. */
export interface AppGrant {
  kind: AppKind;
  base: string;
  /** The user's id. Empty for a visitor of a public app without a session. */
  user: string;
  key: string;
  owner: string;
  workspace: string;
  template: string;
  agent: string;
  port: number;
  https: boolean;
  /** Prepended to each path, without a trailing slash. */
  path: string;
  /** The query of the app's front page with its `?`, or empty. */
  query: string;
  /** Whether only the app decides which origins may read its answers. Absent in grants of earlier versions. */
  passthru?: boolean;
  /** In ms since 1970. */
  issued: number;
  expires: number;
}

/** Signs and seals values that browsers return to this server, with keys of this installation. */
export interface AppTokens {
  /** A grant as text for a cookie. */
  sign(grant: AppGrant): string;
  /** The grant in a text that this installation signed, whatever its age. Undefined for any other text. */
  read(text: string): AppGrant | undefined;
  /** Encrypts a value for one purpose. It opens for the same purpose only. */
  seal(purpose: string, value: object): string;
  unseal<T>(purpose: string, text: string): T | undefined;
}

const MAX_BYTES = 4096;

/** @param secret of this installation, stored in the database */
export function createAppTokens(secret: string): AppTokens {
  const key = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `platform apps ${use}`, 32));
  const signing = key('signing');
  const sealing = key('sealing');
  const mac = (text: string) => createHmac('sha256', signing).update(text).digest();
  return {
    sign(grant) {
      const payload = Buffer.from(JSON.stringify(grant)).toString('base64url');
      return `${payload}.${mac(payload).toString('base64url')}`;
    },
    read(text) {
      if (text.length > MAX_BYTES) return undefined;
      const [payload, signature, more] = text.split('.');
      if (!payload || !signature || more !== undefined) return undefined;
      if (!sameBytes(Buffer.from(signature, 'base64url'), mac(payload))) return undefined;
      return JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as AppGrant;
    },
    seal(purpose, value) {
      const iv = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', sealing, iv).setAAD(Buffer.from(purpose));
      const bytes = Buffer.concat([cipher.update(JSON.stringify(value)), cipher.final()]);
      return Buffer.concat([iv, bytes, cipher.getAuthTag()]).toString('base64url');
    },
    unseal<T>(purpose: string, text: string) {
      const bytes = Buffer.from(text.slice(0, MAX_BYTES), 'base64url');
      if (bytes.length < 29) return undefined;
      try {
        const decipher = createDecipheriv('aes-256-gcm', sealing, bytes.subarray(0, 12)).setAAD(Buffer.from(purpose));
        decipher.setAuthTag(bytes.subarray(-16));
        const plain = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
        return JSON.parse(plain.toString('utf8')) as T;
      } catch {
        // not sealed by this installation, for another purpose, or modified
        return undefined;
      }
    },
  };
}
