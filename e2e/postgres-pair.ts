import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgresBinaries } from '@ropewalk/server/postgres/binaries';
import { freePorts } from '@ropewalk/testkit/ports';

/** A primary and a standby that follows it, on 127.0.0.1. Anyone may connect as `coder`. */
export interface PostgresPair {
  /** Names both, the standby first. */
  url: string;
  /** Kills the primary and makes the standby the primary. */
  failOver(): void;
  close(): void;
}

/** PostgreSQL does not run as root: the user `nobody` runs it then. */
const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;

export async function startPostgresPair(): Promise<PostgresPair> {
  const base = mkdtempSync(join(tmpdir(), 'postgres-pair-'));
  chmodSync(base, 0o711);
  const { home, libraryPath } = postgresBinaries(base, OWNER?.uid);
  const folder = join(base, 'data');
  mkdirSync(folder, { mode: 0o700 });
  if (OWNER) chownSync(folder, OWNER.uid, OWNER.gid);
  const [primary, standby] = [join(folder, 'primary'), join(folder, 'standby')];
  const [primaryPort, standbyPort] = (await freePorts(2)) as [number, number];
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, {
      ...OWNER,
      env: { PATH: process.env['PATH'], LC_ALL: 'C', LD_LIBRARY_PATH: libraryPath },
      cwd: folder,
      // a server that pg_ctl starts keeps its pipes
      stdio: ['ignore', 'ignore', 'inherit'],
      timeout: 60_000,
    });
  const control = (data: string, ...args: string[]) =>
    run(join(home, 'bin', 'pg_ctl'), '-D', data, '-w', '-s', '-l', `${data}.log`, ...args);
  const configure = (data: string, port: number) => {
    const settings = [
      `port = ${port}`,
      "listen_addresses = '127.0.0.1'",
      "unix_socket_directories = ''",
      'fsync = off',
    ];
    appendFileSync(join(data, 'postgresql.conf'), `${settings.join('\n')}\n`);
  };
  const pidOf = (data: string) => Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
  const running = new Set<string>();
  const start = (data: string) => {
    control(data, 'start');
    running.add(data);
  };
  run(join(home, 'bin', 'initdb'), '-D', primary, '-U', 'coder', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C');
  // the files of a database that is not running are a base backup
  run('cp', '-a', primary, standby);
  configure(primary, primaryPort);
  configure(standby, standbyPort);
  const source = `primary_conninfo = 'host=127.0.0.1 port=${primaryPort} user=coder'\n`;
  appendFileSync(join(standby, 'postgresql.conf'), source);
  run('touch', join(standby, 'standby.signal'));
  start(primary);
  start(standby);
  return {
    url: `postgres://coder@127.0.0.1:${standbyPort},127.0.0.1:${primaryPort}/postgres`,
    failOver() {
      process.kill(pidOf(primary), 'SIGKILL');
      running.delete(primary);
      control(standby, 'promote');
    },
    close() {
      for (const data of running) control(data, 'stop', '-m', 'immediate');
      rmSync(base, { recursive: true, force: true });
    },
  };
}
