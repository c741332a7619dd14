import { argon2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { AppError } from '@ropewalk/kit';
import { sameBytes } from '../values/token.ts';

interface Cost {
  /** In KiB. */
  memory: number;
  passes: number;
  parallelism: number;
  /** The length of the hash in bytes. */
  tagLength: number;
}

/** OWASP's argon2id parameters: 19 MiB, two passes, one lane. */
const COST: Cost = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };

/** Computes the argon2id hash, version 19, of a password in a thread of libuv. */
async function argon2id(password: string, salt: Buffer, cost: Cost): Promise<Buffer> {
  return (await promisify(argon2)('argon2id', { message: Buffer.from(password), nonce: salt, ...cost })) as Buffer;
}

/** The PHC string of a password: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await argon2id(password, salt, COST);
  const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');
  return `$argon2id$v=19$m=${COST.memory},t=${COST.passes},p=${COST.parallelism}$${base64(salt)}$${base64(hash)}`;
}

/** Takes the same time for a user without a password, so that the duration reveals nothing. */
export async function verifyPassword(phc: string, password: string): Promise<boolean> {
  const parts = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(phc);
  if (!parts) {
    await argon2id(password, Buffer.alloc(16), COST);
    return false;
  }
  const expected = Buffer.from(parts[5]!, 'base64');
  const cost = {
    memory: Number(parts[1]),
    passes: Number(parts[2]),
    parallelism: Number(parts[3]),
    tagLength: expected.length,
  };
  return sameBytes(await argon2id(password, Buffer.from(parts[4]!, 'base64'), cost), expected);
}

/** Why a password is too weak, or undefined. Length and variety count. Composition rules do not exist. */
export function passwordWeakness(password: string): string | undefined {
  if (password.length > 64) return 'must be at most 64 characters long';
  if (password.length < 8) return 'must be at least 8 characters long';
  if (new Set(password).size < 5) return 'must have at least 5 different characters';
  return undefined;
}

export function checkPassword(field: string, password: string): void {
  const detail = passwordWeakness(password);
  if (detail) throw new AppError('invalid', 'Password not strong enough.', { validations: [{ field, detail }] });
}
