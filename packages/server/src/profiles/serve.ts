import { createServer } from 'node:http';
import { Session } from 'node:inspector/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { AppError, errorText, type Logger } from '@platform/kit';
import { type Address, listen } from '../config/listen.ts';
import { cpuProfile, heapProfile } from './convert.ts';

/** The mean number of allocated bytes between two samples, as in Go. */
const HEAP_SAMPLING_BYTES = 512 * 1024;
const DEFAULT_SECONDS = 30;
const MOST_SECONDS = 300;

const INDEX = `Profiles for go tool pprof:
/debug/pprof/profile?seconds=30  where the server spends CPU time
/debug/pprof/heap                where the memory in use was allocated
`;

export interface RunningProfiles {
  url: string;
  close(): Promise<void>;
}

/**
 * Serves profiles of this process in pprof's format, below the paths that Go programs use, on their own listener. It
 * needs no authentication. Allocations are sampled from now on.
 */
export async function serveProfiles(at: Address, log: Logger): Promise<RunningProfiles> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('HeapProfiler.enable');
  await session.post('HeapProfiler.startSampling', { samplingInterval: HEAP_SAMPLING_BYTES });
  const closed = new AbortController();
  let profiling = false;

  async function cpu(seconds: number, gone: AbortSignal): Promise<Uint8Array> {
    if (profiling)
      throw new AppError('conflict', 'Another CPU profile is being recorded. Try again when it has ended.');
    profiling = true;
    try {
      await session.post('Profiler.start');
      // the rest of a profile that nobody waits for is left out
      await delay(seconds * 1_000, undefined, { signal: AbortSignal.any([closed.signal, gone]) }).catch(() => {});
      return cpuProfile((await session.post('Profiler.stop')).profile);
    } finally {
      profiling = false;
    }
  }

  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const answer = async (): Promise<Uint8Array | string | undefined> => {
      if (request.method !== 'GET') return undefined;
      switch (pathname.replace(/\/$/, '')) {
        case '/debug/pprof':
          return INDEX;
        case '/debug/pprof/heap':
          return heapProfile((await session.post('HeapProfiler.getSamplingProfile')).profile);
        case '/debug/pprof/profile': {
          const seconds = Number(searchParams.get('seconds') ?? DEFAULT_SECONDS);
          if (seconds > 0 && seconds <= MOST_SECONDS) return cpu(seconds, gone.signal);
          throw new AppError('invalid', `Invalid seconds: use a number up to ${MOST_SECONDS}.`);
        }
      }
      return undefined;
    };
    answer()
      .then(async (profile) => {
        if (profile instanceof Uint8Array) {
          const name = pathname.split('/').at(-1);
          response.writeHead(200, {
            'content-type': 'application/octet-stream',
            'content-disposition': `attachment; filename="${name}.pb.gz"`,
          });
          response.end(await promisify(gzip)(profile));
        } else response.writeHead(profile ? 200 : 404, { 'content-type': 'text/plain' }).end(profile ?? INDEX);
      })
      .catch((err: unknown) => {
        const status = err instanceof AppError ? { conflict: 409, invalid: 400 }[err.code as string] : undefined;
        if (status === undefined) log.error('could not record a profile', { err: errorText(err) });
        response.writeHead(status ?? 500, { 'content-type': 'text/plain' }).end(`${errorText(err)}\n`);
      });
  });
  try {
    const { url } = await listen(server, at, '--pprof-address (CODER_PPROF_ADDRESS)');
    log.info('serving profiles', { url: `${url}/debug/pprof/` });
    return {
      url,
      async close() {
        closed.abort();
        const ended = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeAllConnections();
        await ended;
        session.disconnect();
      },
    };
  } catch (err) {
    session.disconnect();
    throw err;
  }
}
