import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { AppError, type LauncherInput, type Logger } from '@ropewalk/kit';
import { allocatorSettings } from '@ropewalk/kit/allocator';
import { noNewPrivileges } from '@ropewalk/kit/no-new-privileges';
import { createCrashes } from './crashes.ts';

const READY_MS = 30_000;

/**
 * Starts the process that runs builds under uids of their own (the provisioner's isolation/protocol.ts), and starts it
 * again when it dies. It outlives the server for as long as it has builds.
 */
export function startLauncher(given: { command: readonly string[]; input: LauncherInput; log: Logger }): {
  ready: Promise<void>;
  /** Why it keeps ending. Undefined while it runs well. */
  problem(): string | undefined;
  /** Leaves it to its builds. One that is not ready yet has none: it is ended, before the folder of its socket goes. */
  close(): Promise<void>;
} {
  const { input, log } = given;
  // builds inherit it
  const [file, ...args] = [...noNewPrivileges(), ...given.command] as [string, ...string[]];
  const crashes = createCrashes('The process that starts builds');
  let closing = false;
  let isReady = false;
  let child: ChildProcess;
  const start = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const fail = (why: string) =>
        reject(new AppError('unavailable', `Could not start the process that starts builds: ${why}`));
      const timer = setTimeout(() => fail('it does not answer'), READY_MS);
      child = spawn(file, args, {
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '', ...allocatorSettings() },
        stdio: ['pipe', 'pipe', 'inherit'],
        detached: true,
      });
      crashes.started();
      isReady = false;
      let reason: string | undefined;
      child.on('error', (err) => {
        reason = err.message;
        fail(err.message);
      });
      child.stdin!.on('error', () => {});
      child.stdin!.write(`${JSON.stringify(input)}\n`);
      createInterface({ input: child.stdout! }).on('line', (line) => {
        if (line.startsWith('say ')) log.info(line.slice(4));
        if (line !== 'ready') return;
        clearTimeout(timer);
        isReady = true;
        resolve();
      });
      child.once('close', (code, signal) => {
        clearTimeout(timer);
        fail('it ended');
        if (closing) return;
        const waitMs = crashes.ended({ code, signal, reason });
        log.error('the process that starts builds ended unexpectedly: starting it again', {
          code,
          signal,
          reason,
          wait_ms: Math.round(waitMs),
        });
        setTimeout(() => start().catch(() => {}), waitMs);
      });
    });
  const ready = start();
  ready.catch((err) => {
    if (!closing) log.error('builds cannot be started yet', { err });
  });
  return {
    ready,
    problem: crashes.problem,
    async close() {
      closing = true;
      crashes.close();
      const runs = child.pid !== undefined && child.exitCode === null && child.signalCode === null;
      if (runs && !isReady) {
        const ended = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGKILL');
        await ended;
      }
      child.stdin!.end();
      child.stdout!.destroy();
      child.unref();
    },
  };
}
