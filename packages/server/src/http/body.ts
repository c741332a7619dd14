/**
 * Reads request bodies under budgets. A body stays in memory while it arrives and until its request is answered. So the
 * server counts bytes for each holder (a person, an agent, or the address of a client that has not signed in) and in all.
 */
import type { IncomingMessage } from 'node:http';
import { AppError } from '@ropewalk/kit';
import { markOversized } from '../app/context/observed-requests.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

export type HolderKind = 'anonymous' | 'agent' | 'person';

export interface Holder {
  kind: HolderKind;
  /** The id of the person, the agent or the workspace proxy (kind `agent`), or the client's address. */
  id: string;
}

/** Bytes of bodies in memory at a time: of one holder, and of all holders of a kind together. */
const MAX_EACH: Readonly<Record<HolderKind, number>> = { anonymous: MIB, agent: 8 * MIB, person: 256 * MIB };
const MAX_OF_KIND: Readonly<Record<HolderKind, number>> = {
  anonymous: 32 * MIB,
  agent: 256 * MIB,
  person: 1024 * MIB,
};

/**
 * The first bytes of each body count in no budget. So bodies of others, at the same address or anywhere, prevent nobody
 * from sending a password.
 */
const FREE_BYTES = 2 * KIB;

/** How long a body may take to arrive, in milliseconds. */
export const UPLOAD_MS = { anonymous: 10_000, json: 60_000, bytes: 300_000 } as const;
/** The longest body: before sign-in, of agents and workspace proxies, of JSON, of uploads. */
export const BODY_LIMIT = { anonymous: 256 * KIB, agent: 4 * MIB, json: 16 * MIB, bytes: 100 * MIB } as const;

const timers = new WeakMap<IncomingMessage, NodeJS.Timeout>();

/** Ends a request whose body takes longer. A further call replaces the time. False if no body is expected. */
export function limitUpload(request: IncomingMessage, ms: number): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (encoding === undefined && (length === undefined || length === '0')) return false;
  if (request.readableEnded) return false;
  const before = timers.get(request);
  clearTimeout(before);
  timers.set(request, setTimeout(() => request.destroy(), ms).unref());
  if (before) return true;
  const over = () => clearTimeout(timers.get(request));
  request.once('end', over).once('close', over);
  return true;
}

export interface BodyBudget {
  /** The whole body. @throws AppError `too_large`, `rate_limited` beyond a budget, or `canceled` if the client left. */
  read(request: IncomingMessage, holder: Holder, limit: number): Promise<Buffer>;
}

export function createBodyBudget(): BodyBudget {
  const each = new Map<string, number>();
  const all: Record<HolderKind, number> = { anonymous: 0, agent: 0, person: 0 };

  function take({ kind, id }: Holder, bytes: number): void {
    const key = `${kind} ${id}`;
    const mine = (each.get(key) ?? 0) + bytes;
    if (mine > MAX_EACH[kind] || all[kind] + bytes > MAX_OF_KIND[kind]) {
      throw new AppError(
        'rate_limited',
        'Too many large requests at the same time. Try again when the others have ended.',
      );
    }
    each.set(key, mine);
    all[kind] += bytes;
  }

  function give({ kind, id }: Holder, bytes: number): void {
    const key = `${kind} ${id}`;
    const left = (each.get(key) ?? 0) - bytes;
    if (left > 0) each.set(key, left);
    else each.delete(key);
    all[kind] -= bytes;
  }

  const tooLarge = (request: IncomingMessage, limit: number) => {
    markOversized(request);
    return new AppError('too_large', 'The request body is too large.', {
      detail: `At most ${limit} bytes are accepted.`,
    });
  };

  return {
    async read(request, holder, limit) {
      if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(request, limit);
      const parts: Buffer[] = [];
      let size = 0;
      let held = 0;
      // until the request is over: the values parsed from the bytes stay in memory as long
      request.once('close', () => give(holder, held));
      return new Promise((resolve, reject) => {
        const fail = (err: AppError) => {
          request.off('data', onData).pause();
          parts.length = 0;
          give(holder, held);
          held = 0;
          reject(err);
        };
        const onData = (part: Buffer) => {
          try {
            if (size + part.length > limit) throw tooLarge(request, limit);
            const counted = Math.max(0, size + part.length - FREE_BYTES) - held;
            if (counted > 0) take(holder, counted);
            held += counted;
            size += part.length;
            parts.push(part);
          } catch (err) {
            fail(err as AppError);
          }
        };
        request.on('data', onData);
        request.once('end', () => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
        const left = () => reject(new AppError('canceled', 'The client closed the connection.'));
        request.once('error', left).once('close', left);
        if (request.destroyed) left();
      });
    },
  };
}
