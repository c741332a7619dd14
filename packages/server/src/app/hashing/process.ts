/**
 * Hashes passwords in a process of Linux's idle class, which gives up its processor at once when other work comes. A thread
 * of normal class keeps the processor until the kernel's next tick, up to 10 ms, however low its priority, so each
 * request beside a sign-in would wait for that. Where other work keeps all processors busy, a process of this class gets
 * next to nothing: then the server hashes in a thread of its own after a short time. A thread of idle class would not do:
 * it could stop while it holds a lock that the server's other threads need.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Logger } from '@platform/kit';
import { type Cost, type Hash, hashHere } from './argon2.ts';

export interface HashQuestion {
  id: number;
  password: string;
  salt: Uint8Array;
  cost: Cost;
}

export interface HashAnswer {
  id: number;
  hash: Uint8Array;
}

export interface HashingProcess {
  hash: Hash;
  /** The id of the process, once it takes work. */
  readonly pid: number | undefined;
  close(): Promise<void>;
}

export interface HashingProcessOptions {
  /** The program and arguments that run hashing/entry.ts. */
  command: readonly string[];
  log: Logger;
  /** The command that makes a process of the idle class of the one in its arguments. Default: Linux's chrt. */
  lower?: readonly string[] | undefined;
  /** How many hashes it computes at a time. One more waits in it. The server computes what exceeds both. */
  atOnce: number;
  /** How long the server waits for a hash before it computes the hash itself, in ms. */
  patienceMs?: number;
  /** How long the process lives without work, in ms. */
  idleMs?: number;
}

/** What the process needs of the environment: to find programs, and where the executable unpacks its parts. */
const ENVIRONMENT = ['PATH', 'HOME', 'XDG_CACHE_HOME', 'LD_LIBRARY_PATH'];

export function createHashingProcess(options: HashingProcessOptions): HashingProcess {
  const { command, lower = ['chrt', '-i', '0'], log, atOnce, patienceMs = 250, idleMs = 10_000 } = options;
  const open = new Map<number, (hash: Buffer | undefined) => void>();
  let child: ChildProcess | undefined;
  let ready = false;
  // one attempt: without chrt, or where a sandbox forbids it, every attempt fails
  let unusable = process.platform !== 'linux';
  let idle: NodeJS.Timeout | undefined;
  let lastId = 0;

  function start(): void {
    const env = {
      ...Object.fromEntries(ENVIRONMENT.map((name) => [name, process.env[name]])),
      UV_THREADPOOL_SIZE: String(atOnce),
    };
    const [program, ...args] = [...lower, ...command] as [string, ...string[]];
    const started = spawn(program, args, {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
      env,
    });
    child = started;
    started.once('error', (err) => ended(err.message));
    started.once('exit', (code, signal) => ended(`it ended with ${signal ?? code}`));
    started.on('message', (message: HashAnswer | 'ready') => {
      if (message !== 'ready') return settle(message.id, Buffer.from(message.hash));
      ready = true;
      endLater();
    });
    started.unref();
    started.channel?.unref();

    function ended(reason: string): void {
      if (child !== started) return;
      if (!ready) {
        unusable = true;
        log.debug('passwords are hashed in the server', { reason });
      }
      forget();
    }
  }

  function settle(id: number, hash: Buffer | undefined): void {
    open.get(id)?.(hash);
    open.delete(id);
  }

  function forget(): void {
    clearTimeout(idle);
    child = undefined;
    ready = false;
    for (const id of open.keys()) settle(id, undefined);
  }

  function stop(): void {
    const stopped = child;
    forget();
    stopped?.kill('SIGKILL');
  }

  function endLater(): void {
    clearTimeout(idle);
    idle = setTimeout(stop, idleMs);
    idle.unref();
  }

  /** Asks the process, if it has time. The answer is undefined if it ends first. */
  function ask(password: string, salt: Buffer, cost: Cost): Promise<Buffer | undefined> | undefined {
    if (unusable) return undefined;
    if (!child) start();
    if (!ready) return undefined;
    endLater();
    if (open.size > atOnce) return undefined;
    const id = ++lastId;
    return new Promise((resolve) => {
      open.set(id, resolve);
      child!.send({ id, password, salt, cost } satisfies HashQuestion, (err) => {
        if (err) settle(id, undefined);
      });
    });
  }

  return {
    async hash(password, salt, cost) {
      const answer = ask(password, salt, cost);
      if (!answer) return hashHere(password, salt, cost);
      const impatience = Promise.withResolvers<undefined>();
      const timer = setTimeout(impatience.resolve, patienceMs, undefined);
      const hash = await Promise.race([answer, impatience.promise]);
      clearTimeout(timer);
      return hash ?? hashHere(password, salt, cost);
    },
    get pid() {
      return ready ? child?.pid : undefined;
    },
    async close() {
      unusable = true;
      stop();
    },
  };
}
