import { spawn } from 'node:child_process';
import { CHECKOUT } from './harness.ts';

/** `coder operator start` in its own process. */
export interface OperatorProcess {
  log(): string;
  /** Sends SIGTERM and returns the exit code. */
  stop(): Promise<number | null>;
}

export function startOperatorProcess({ env }: { env: NodeJS.ProcessEnv }, args: string[]): OperatorProcess {
  const [file, ...first] = CHECKOUT;
  const child = spawn(file!, [...first, 'operator', 'start', '--verbose', ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', (data: Buffer) => {
      log += data.toString();
    });
  }
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return {
    log: () => log,
    stop() {
      child.kill('SIGTERM');
      return exited;
    },
  };
}
