import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { AppError, backoff, type LauncherInput, type Logger } from '@platform/kit';
import { ALLOCATOR } from '@platform/kit/allocator';
import { noNewPrivileges } from '@platform/kit/no-new-privileges';

const READY_MS = 30_000;

/**
 * Starts the process that runs builds under uids of their own (the provisioner's isolation/protocol.ts), and starts it
 * again when it dies. It outlives the server for as long as it has builds.
 */
export function startLauncher(given: { command: readonly string[]; input: LauncherInput; log: Logger }): {
  ready: Promise<void>;
  close(): void;
} {
  const { input, log } = given;
  // builds inherit it
  const [file, ...args] = [...noNewPrivileges(), ...given.command] as [string, ...string[]];
  const waits = backoff({ baseMs: 50, capMs: 5_000 });
  let closing = false;
  let child: ChildProcess;
  const start = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const fail = (why: string) =>
        reject(new AppError('unavailable', `Could not start the process that starts builds: ${why}`));
      const timer = setTimeout(() => fail('it does not answer'), READY_MS);
      const started = performance.now();
      child = spawn(file, args, {
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '', ...ALLOCATOR },
        stdio: ['pipe', 'pipe', 'inherit'],
        detached: true,
      });
      child.on('error', (err) => fail(err.message));
      child.stdin!.on('error', () => {});
      child.stdin!.write(`${JSON.stringify(input)}\n`);
      createInterface({ input: child.stdout! }).on('line', (line) => {
        if (line.startsWith('say ')) log.info(line.slice(4));
        if (line !== 'ready') return;
        clearTimeout(timer);
        resolve();
      });
      child.once('exit', (code, signal) => {
        clearTimeout(timer);
        fail('it ended');
        if (closing) return;
        if (performance.now() - started > 10_000) waits.reset();
        log.error('the process that starts builds ended unexpectedly: starting it again', { code, signal });
        setTimeout(() => start().catch(() => {}), waits.next());
      });
    });
  const ready = start();
  ready.catch((err) => log.error('builds cannot be started yet', { err }));
  return {
    ready,
    close() {
      closing = true;
      child.stdin!.end();
      child.stdout!.destroy();
      child.unref();
    },
  };
}
