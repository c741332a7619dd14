import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Connection,
  commandTemplate,
  createWorkspace,
  eventually,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  type Workspace,
} from './harness.ts';

const CONNECTED = 'provisioner: successfully connected to coderd';

/** `coder provisioner start` in its own process. */
export interface DaemonProcess {
  child: ChildProcess;
  name: string;
  /** Its cache directory. A daemon that starts with the same directory adopts the runs. */
  cacheDir: string;
  log(): string;
  /** Resolves with its exit code or the signal that ended it. */
  exited: Promise<number | NodeJS.Signals>;
  /** Resolves when its log contains this text. */
  says(text: string, timeoutMs?: number): Promise<void>;
  /** Sends SIGKILL and waits for its end. Processes that it started continue. */
  kill(): Promise<void>;
}

export interface DaemonProcessOptions {
  name: string;
  args?: string[];
  env?: NodeJS.ProcessEnv;
  cacheDir?: string;
  /** The coder command to run. Default: PROGRAM. */
  program?: readonly string[];
  /** Whether to return as soon as the process runs, without waiting for its connection. */
  early?: boolean;
}

/** Starts a daemon and waits until it is connected. Its credentials are in the arguments or variables. */
export async function startDaemon(
  server: Pick<ServerProcess, 'url' | 'configDir'>,
  options: DaemonProcessOptions,
): Promise<DaemonProcess> {
  const { name, args = [] } = options;
  const cacheDir = options.cacheDir ?? join(server.configDir, `daemon-${name}`);
  const [file, ...first] = options.program ?? PROGRAM;
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
    async says(text, timeoutMs = 60_000) {
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

/** Creates a provisioner key and returns its secret. */
export async function makeKey(server: Connection, name: string, tags: Record<string, string> = {}): Promise<string> {
  const made = await server.api<{ key: string }>('POST', '/organizations/default/provisionerkeys', { name, tags });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.key;
}

export async function deleteKey(server: ServerProcess, name: string): Promise<void> {
  const gone = await server.api('DELETE', `/organizations/default/provisionerkeys/${name}`);
  assert.equal(gone.status, 204, JSON.stringify(gone.body));
}

/** A template command that reports that it has begun and waits until the gate opens. */
export interface Gate {
  /** The shell command. */
  command: string;
  /** The number of commands that wait or have waited. */
  begun(): number;
  open(): void;
}

/** Makes a workspace whose build waits at a gate of its name, and waits until the build is there. */
export async function startGatedBuild(server: Connection, { command, begun }: Gate, name: string): Promise<Workspace> {
  const template = await makeTemplate(server, name, commandTemplate(command));
  const workspace = await createWorkspace(server, template, name);
  await eventually('the apply has begun', () => begun() > 0);
  return workspace;
}

/** Creates a folder of gates. Each process that waits creates a file in it. */
export function gates(): { gate(name: string): Gate; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'platform-gates-'));
  chmodSync(dir, 0o755);
  return {
    gate(name) {
      const home = join(dir, name);
      mkdirSync(home);
      chmodSync(home, 0o1777); // built-in daemons of a root server have their own uid
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
