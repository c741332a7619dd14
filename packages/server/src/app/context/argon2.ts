import { argon2 } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { promisify } from 'node:util';

export interface Cost {
  /** In KiB. */
  memory: number;
  passes: number;
  parallelism: number;
  /** The length of the hash in bytes. */
  tagLength: number;
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

/** Computes the argon2id hash, version 19, of a password in a thread of libuv. */
export async function argon2id(password: string, salt: Buffer, cost: Cost): Promise<Buffer> {
  const hash = promisify(argon2)('argon2id', { message: Buffer.from(password), nonce: salt, ...cost });
  // the threads exist from the first use on
  lowerPoolPriority();
  return (await hash) as Buffer;
}
