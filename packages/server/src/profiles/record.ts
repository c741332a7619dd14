import type { Session } from 'node:inspector/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { AppError } from '@ropewalk/kit';

/** The mean number of allocated bytes between two samples, as in Go. */
const HEAP_SAMPLING_BYTES = 512 * 1024;
const DEFAULT_SECONDS = 30;
const MAX_SECONDS = 300;

/** Their names in paths of pprof. */
export const PROFILE_KINDS = ['profile', 'heap'] as const;
export type ProfileKind = (typeof PROFILE_KINDS)[number];

export interface ProfileOptions {
  /** How long it is recorded. 30 by default, and at most 300. */
  seconds?: number | undefined;
  /** Ends the recording: nobody waits for it any more. */
  signal: AbortSignal;
}

/** Records profiles of this process in pprof's format, compressed with gzip. */
export interface Profiler {
  /**
   * `profile` shows where CPU time was spent, and `heap` where the memory in use was allocated: since `sampleHeap`, or
   * during the recording.
   * @throws AppError `invalid` for a wrong duration, `conflict` while another profile of this kind is recorded
   */
  record(kind: ProfileKind, options: ProfileOptions): Promise<Buffer>;
  /** Samples allocations from now on, so that `heap` answers immediately with all of them. */
  sampleHeap(): Promise<void>;
  close(): void;
}

/** Loads what it needs with the first profile. */
export function createProfiler(): Profiler {
  const closed = new AbortController();
  const recording = new Set<ProfileKind>();
  let sampling = false;
  let opened: Promise<Session> | undefined;

  async function open(): Promise<Session> {
    const { Session } = await import('node:inspector/promises');
    const session = new Session();
    session.connect();
    return session;
  }

  function connected(): Promise<Session> {
    opened ??= open();
    return opened;
  }

  async function startSampling(): Promise<Session> {
    const session = await connected();
    await session.post('HeapProfiler.startSampling', { samplingInterval: HEAP_SAMPLING_BYTES });
    return session;
  }

  // the rest of a profile that nobody waits for is left out
  const wait = (seconds: number, signal: AbortSignal) =>
    delay(seconds * 1_000, undefined, { signal: AbortSignal.any([closed.signal, signal]) }).catch(() => {});

  async function cpu(seconds: number, signal: AbortSignal): Promise<Uint8Array> {
    const [session, { cpuProfile }] = await Promise.all([connected(), import('./convert.ts')]);
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await wait(seconds, signal);
    return cpuProfile((await session.post('Profiler.stop')).profile);
  }

  async function heap(seconds: number, signal: AbortSignal): Promise<Uint8Array> {
    const { heapProfile } = await import('./convert.ts');
    if (sampling) return heapProfile((await (await connected()).post('HeapProfiler.getSamplingProfile')).profile);
    const session = await startSampling();
    await wait(seconds, signal);
    return heapProfile((await session.post('HeapProfiler.stopSampling')).profile);
  }

  return {
    async record(kind, { seconds = DEFAULT_SECONDS, signal }) {
      if (!(seconds > 0 && seconds <= MAX_SECONDS))
        throw new AppError('invalid', `Invalid seconds: use a number up to ${MAX_SECONDS}.`);
      if (recording.has(kind))
        throw new AppError('conflict', 'Another profile is being recorded. Try again when it has ended.');
      recording.add(kind);
      try {
        return await promisify(gzip)(await (kind === 'heap' ? heap : cpu)(seconds, signal));
      } finally {
        recording.delete(kind);
      }
    },
    async sampleHeap() {
      sampling = true;
      await startSampling();
    },
    close() {
      closed.abort();
      void opened?.then((session) => session.disconnect());
    },
  };
}
