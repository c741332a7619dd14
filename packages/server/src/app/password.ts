import { argon2, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { promisify } from 'node:util';
import type * as Argon2 from '@node-rs/argon2';
import { AppError } from '@platform/kit';
import { sameBytes } from './token.ts';

declare global {
  /** Loads the package in the executable, which contains it. */
  var PLATFORM_LOAD_ARGON2: (() => Promise<typeof Argon2>) | undefined;
}

type Derive = (password: string, salt: Buffer, cost: typeof COST) => Promise<Buffer>;

/** OWASP's argon2id parameters: 19 MiB, two passes, one lane. */
const COST = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };

/** Node's own implementation takes three times as long, and works wherever Node does. */
export const deriveInNode: Derive = async (password, salt, cost) =>
  (await promisify(argon2)('argon2id', { message: Buffer.from(password), nonce: salt, ...cost })) as Buffer;

let loaded: Promise<Derive> | undefined;

/** Loads the faster implementation at the first password. Its default is argon2id, version 19. */
async function loadDerive(): Promise<Derive> {
  try {
    const { hashRaw } = await (globalThis.PLATFORM_LOAD_ARGON2?.() ?? import('@node-rs/argon2'));
    return async (password, salt, { memory, passes, parallelism, tagLength }) =>
      hashRaw(password, { salt, memoryCost: memory, timeCost: passes, parallelism, outputLen: tagLength });
  } catch {
    // a system without a build of it, or an executable without a folder that it may write to
    return deriveInNode;
  }
}

/** libuv's number of threads for work that blocks. */
const POOL_THREADS = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4);
let loweredThreads = 0;

/**
 * Lowers the priority of the threads that hash: a hash takes tens of milliseconds of a processor, which requests need
 * meanwhile. The same threads read files and look up names, which takes next to nothing. Only Linux has priorities of
 * single threads.
 */
function lowerPoolPriority(): void {
  if (loweredThreads >= POOL_THREADS || process.platform !== 'linux') return;
  let lowered = 0;
  for (const thread of readdirSync('/proc/self/task')) {
    try {
      if (readFileSync(`/proc/self/task/${thread}/comm`, 'utf8') !== 'libuv-worker\n') continue;
      setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL);
      lowered++;
    } catch {
      // the thread has ended
    }
  }
  loweredThreads = lowered;
}

async function tag(password: string, salt: Buffer, cost: typeof COST): Promise<Buffer> {
  loaded ??= loadDerive();
  const hash = (await loaded)(password, salt, cost);
  // the threads exist from the first use on
  lowerPoolPriority();
  return await hash;
}

/** The PHC string of a password: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await tag(password, salt, COST);
  const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');
  return `$argon2id$v=19$m=${COST.memory},t=${COST.passes},p=${COST.parallelism}$${base64(salt)}$${base64(hash)}`;
}

/** Takes the same time for a user without a password, so that the duration reveals nothing. */
export async function verifyPassword(phc: string, password: string): Promise<boolean> {
  const parts = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(phc);
  if (!parts) {
    await tag(password, Buffer.alloc(16), COST);
    return false;
  }
  const expected = Buffer.from(parts[5]!, 'base64');
  const cost = {
    memory: Number(parts[1]),
    passes: Number(parts[2]),
    parallelism: Number(parts[3]),
    tagLength: expected.length,
  };
  return sameBytes(await tag(password, Buffer.from(parts[4]!, 'base64'), cost), expected);
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
