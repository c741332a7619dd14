import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { eventually, type ServerProcess } from './harness.ts';

const main = join(dirname(import.meta.dirname), 'packages/cli/src/main.ts');
const CONNECTED = 'provisioner: successfully connected to coderd';

/** `coder provisioner start` as a process of its own. */
export interface DaemonProcess {
  child: ChildProcess;
  name: string;
  /** What it was started with; the same directory again is what lets a run be adopted. */
  cacheDir: string;
  log(): string;
  /** Resolves with its exit code, or with the signal that ended it. */
  exited: Promise<number | NodeJS.Signals>;
  /** Resolves when its log has this text. */
  says(text: string, timeoutMs?: number): Promise<void>;
  /** SIGKILL, and waits for its end. What it started goes on. */
  kill(): Promise<void>;
}

export interface DaemonProcessOptions {
  name: string;
  args?: string[];
  env?: NodeJS.ProcessEnv;
  cacheDir?: string;
  /** The coder command to run; default: the checkout's. */
  program?: readonly string[];
  /** Gives it back as soon as it runs, without waiting for its connection. */
  early?: boolean;
}

/** Starts one and waits until it is connected. Who it is comes with the arguments or variables. */
export async function startDaemon(server: ServerProcess, options: DaemonProcessOptions): Promise<DaemonProcess> {
  const { name, args = [] } = options;
  const cacheDir = options.cacheDir ?? join(server.configDir, `daemon-${name}`);
  const [file, ...first] = options.program ?? [process.execPath, main];
  const child = spawn(
    file!,
    [...first, 'provisioner', 'start', '--verbose', '--name', name, '--cache-dir', cacheDir, ...args],
    {
      env: {
        PATH: process.env['PATH'],
        HOME: join(server.configDir, 'nobody'),
        TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
        CODER_URL: server.url,
        ...options.env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let log = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (data: Buffer) => {
      log += data.toString();
    });
  const exited = new Promise<number | NodeJS.Signals>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal!)),
  );
  const daemon: DaemonProcess = {
    child,
    name,
    cacheDir,
    log: () => log,
    exited,
    async says(text, timeoutMs = 20_000) {
      await eventually(
        `${name} says "${text}"`,
        async () => {
          if (log.includes(text)) return true;
          if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}:\n${log}`);
          return false;
        },
        timeoutMs,
      ).catch((err: Error) => {
        throw new Error(`${err.message}\n${log}`);
      });
    },
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
  if (!options.early) await daemon.says(CONNECTED);
  return daemon;
}

/** Makes a provisioner key and gives its secret. */
export async function makeKey(server: ServerProcess, name: string, tags: Record<string, string> = {}): Promise<string> {
  const made = await server.api<{ key: string }>('POST', '/organizations/default/provisionerkeys', { name, tags });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.key;
}

export async function deleteKey(server: ServerProcess, name: string): Promise<void> {
  const gone = await server.api('DELETE', `/organizations/default/provisionerkeys/${name}`);
  assert.equal(gone.status, 204, JSON.stringify(gone.body));
}

/** Commands of a template that say that they have begun and wait to be let go. */
export interface Gate {
  /** For a shell. */
  command: string;
  /** How many are waiting or have waited. */
  begun(): number;
  open(): void;
}

/** A folder of gates; the process that waits makes a file of its own in it. */
export function gates(): { gate(name: string): Gate; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'platform-gates-'));
  chmodSync(dir, 0o755);
  return {
    gate(name) {
      const home = join(dir, name);
      mkdirSync(home);
      chmodSync(home, 0o1777); // built-in daemons of a root server have a uid of their own
      const open = join(home, 'open');
      return {
        command: `touch ${home}/begun-$$; while [ ! -e ${open} ]; do sleep 0.05; done`,
        begun: () => readdirSync(home).filter((file) => file.startsWith('begun-')).length,
        open: () => writeFileSync(open, ''),
      };
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}
