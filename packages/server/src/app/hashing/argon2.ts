import { argon2 } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { promisify } from 'node:util';
import type * as Argon2 from '@node-rs/argon2';

declare global {
  /** Loads the package in the executable, which contains it. */
  var PLATFORM_LOAD_ARGON2: (() => Promise<typeof Argon2>) | undefined;
}

export interface Cost {
  /** In KiB. */
  memory: number;
  passes: number;
  parallelism: number;
  /** The length of the hash in bytes. */
  tagLength: number;
}

/** Computes the argon2id hash, version 19, of a password. */
export type Hash = (password: string, salt: Buffer, cost: Cost) => Promise<Buffer>;

/** Node's own implementation takes three times as long, and works wherever Node does. */
export const hashInNode: Hash = async (password, salt, cost) =>
  (await promisify(argon2)('argon2id', { message: Buffer.from(password), nonce: salt, ...cost })) as Buffer;

let loaded: Promise<Hash> | undefined;

/** Loads the faster implementation at the first password. Its default is argon2id, version 19. */
async function load(): Promise<Hash> {
  try {
    const { hashRaw } = await (globalThis.PLATFORM_LOAD_ARGON2?.() ?? import('@node-rs/argon2'));
    return async (password, salt, { memory, passes, parallelism, tagLength }) =>
      hashRaw(password, { salt, memoryCost: memory, timeCost: passes, parallelism, outputLen: tagLength });
  } catch {
    // a system without a build of it, or an executable without a folder that it may write to
    return hashInNode;
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

/** Hashes in a thread of this process. */
export const hashHere: Hash = async (password, salt, cost) => {
  loaded ??= load();
  const hash = (await loaded)(password, salt, cost);
  // the threads exist from the first use on
  lowerPoolPriority();
  return await hash;
};
