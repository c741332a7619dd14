import { createServer } from 'node:http';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { type Address, listen } from '../config/listen.ts';
import { PROFILE_KINDS, type Profiler } from './record.ts';

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
export async function serveProfiles(profiler: Profiler, at: Address, log: Logger): Promise<RunningProfiles> {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const answer = async (): Promise<Buffer | string | undefined> => {
      if (request.method !== 'GET') return undefined;
      const path = pathname.replace(/\/$/, '');
      if (path === '/debug/pprof') return INDEX;
      const kind = PROFILE_KINDS.find((each) => path === `/debug/pprof/${each}`);
      const seconds = searchParams.get('seconds');
      return (
        kind && profiler.record(kind, { seconds: seconds === null ? undefined : Number(seconds), signal: gone.signal })
      );
    };
    answer()
      .then((profile) => {
        if (Buffer.isBuffer(profile)) {
          const name = pathname.split('/').at(-1);
          response.writeHead(200, {
            'content-type': 'application/octet-stream',
            'content-disposition': `attachment; filename="${name}.pb.gz"`,
          });
          response.end(profile);
        } else response.writeHead(profile ? 200 : 404, { 'content-type': 'text/plain' }).end(profile ?? INDEX);
      })
      .catch((err: unknown) => {
        const status = err instanceof AppError ? { conflict: 409, invalid: 400 }[err.code as string] : undefined;
        if (status === undefined) log.error('could not record a profile', { err: errorText(err) });
        response.writeHead(status ?? 500, { 'content-type': 'text/plain' }).end(`${errorText(err)}\n`);
      });
  });
  const { url } = await listen(server, at, '--pprof-address (CODER_PPROF_ADDRESS)');
  await profiler.sampleHeap();
  log.info('serving profiles', { url: `${url}/debug/pprof/` });
  return {
    url,
    async close() {
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await ended;
    },
  };
}
