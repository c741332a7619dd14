import { spawn } from 'node:child_process';
import { PROGRAM } from './harness.ts';

/** `coder operator start` in its own process. */
export interface OperatorProcess {
  log(): string;
  /** Sends SIGTERM and returns the exit code. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL and waits for its end. */
  kill(): Promise<void>;
}

export function startOperatorProcess(
  { env, program = PROGRAM }: { env: NodeJS.ProcessEnv; program?: readonly string[] },
  args: string[],
): OperatorProcess {
  return follow([...program, 'operator', 'start', '--verbose', ...args], env);
}

/**
 * Starts the command as in a pod: its service account's files are where Kubernetes mounts them, and it sees no other file
 * of the machine's /run.
 */
export function startOperatorPod(account: string, args: string[], env: NodeJS.ProcessEnv): OperatorProcess {
  const at = '/run/secrets/kubernetes.io/serviceaccount';
  const script = `mount -t tmpfs tmpfs /run && mkdir -p ${at} && mount --bind "$0" ${at} && exec "$@"`;
  const isolated = ['unshare', '--map-root-user', '--mount', 'sh', '-c', script, account];
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return follow([...isolated, ...PROGRAM, ...args], { PATH, NODE_COMPILE_CACHE, ...env });
}

function follow([file, ...args]: string[], env: NodeJS.ProcessEnv): OperatorProcess {
  const child = spawn(file!, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
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
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
