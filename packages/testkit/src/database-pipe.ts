import { type Pipe, startPipe } from './tcp-proxy.ts';

export interface DatabasePipe extends Omit<Pipe, 'port'> {
  /** The database URL with the proxy's address. */
  url: string;
}

/** A TCP proxy in front of a database. Each connection calls `watch` for a reader of its client's bytes. */
export async function pipeDatabase(databaseUrl: string, watch?: () => (part: Buffer) => void): Promise<DatabasePipe> {
  const target = new URL(databaseUrl);
  const folder = target.searchParams.get('host');
  const port = Number(target.port || 5432);
  const { port: own, ...pipe } = await startPipe(
    folder ? { path: `${folder}/.s.PGSQL.${port}` } : { host: target.hostname, port, noDelay: true },
    watch,
  );
  target.searchParams.delete('host');
  target.hostname = '127.0.0.1';
  target.port = String(own);
  return { url: target.href, ...pipe };
}
