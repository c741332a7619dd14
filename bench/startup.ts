import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@ropewalk/kit';
import { startBundledPostgres } from '@ropewalk/server/postgres/bundled';
import { ensureExecutable, freePort } from '../e2e/harness.ts';
import { paired, type Row, timed } from './measure.ts';

async function untilReady(url: string): Promise<void> {
  for (;;) {
    const ok = await fetch(`${url}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (ok) return;
    await new Promise((done) => setTimeout(done, 3));
  }
}

/** Proportional set size of one process, in MB. */
function pss(pid: number): number {
  return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))![1]) / 1000;
}

/** The built executable's server on existing data with the bundled PostgreSQL, compared with PostgreSQL alone. */
export async function benchStartup(): Promise<Row[]> {
  const executable = await ensureExecutable();
  const configDir = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const launch = async (holdMs: number): Promise<{ ms: number; pss: number }> => {
    const port = await freePort();
    const started = performance.now();
    const child = spawn(executable, ['server'], {
      env: {
        PATH: process.env['PATH'],
        HOME: configDir,
        CODER_CONFIG_DIR: configDir,
        CODER_HTTP_ADDRESS: `127.0.0.1:${port}`,
      },
      stdio: 'ignore',
    });
    await untilReady(`http://127.0.0.1:${port}`);
    const ms = performance.now() - started;
    if (holdMs > 0) await new Promise((done) => setTimeout(done, holdMs));
    const memory = holdMs > 0 ? pss(child.pid!) : 0;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await gone;
    return { ms, pss: memory };
  };
  try {
    await launch(0); // creates the database
    const postgresAlone = async () => {
      let stop = async () => {};
      const ms = await timed(async () => {
        stop = (await startBundledPostgres(configDir, silentLogger)).stop;
      });
      await stop();
      return ms;
    };
    const pair = await paired(5, async () => (await launch(0)).ms, postgresAlone);
    const above = pair.ours - pair.floor;
    const memory = (await launch(10_000)).pss;
    return [
      {
        what: 'server start to ready, existing data, bundled PostgreSQL',
        ours: `${pair.ours.toFixed(0)} ms`,
        floor: `${pair.floor.toFixed(0)} ms`,
        figure: `${above.toFixed(0)} ms above`,
        reach: '≤ 1000 ms above',
        met: above <= 1000,
      },
      {
        what: 'server process, 10 s after ready (PSS)',
        ours: `${memory.toFixed(0)} MB`,
        floor: '–',
        figure: `${memory.toFixed(0)} MB`,
        reach: '≤ 150 MB',
        met: memory <= 150,
      },
    ];
  } finally {
    rmSync(configDir, { recursive: true, force: true });
  }
}
