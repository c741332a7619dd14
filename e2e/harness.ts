import assert from 'node:assert/strict';
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { writeTar } from '@ropewalk/server/app/evaluate/archive';
import { directoryHash } from '@ropewalk/server/postgres/place';
import { removeKept } from '@ropewalk/testkit/kept';
import { freePort } from '@ropewalk/testkit/ports';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { processIds } from '@ropewalk/testkit/processes';
import { answers, eventually } from '@ropewalk/testkit/wait';

export { answers, eventually, freePort };

const root = dirname(import.meta.dirname);
const main = join(root, 'packages/cli/src/main.ts');
const executable = process.env['TEST_EXECUTABLE'];
/** The coder command of the checkout, for tests that load something into its process. An executable ignores NODE_OPTIONS. */
export const SOURCES: readonly string[] = [process.execPath, main];
/**
 * The coder command. A whole run builds the executable first and tests it, since people run that one and it starts in half
 * the processor time. A single file tests the sources.
 */
export const PROGRAM: readonly string[] = executable ? [executable] : SOURCES;
/** The account of `firstUser`. */
export const PERSON = { username: 'admin', email: 'admin@example.com', password: 'correct horse battery' };

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the coder command in its own process and waits for its end. */
export async function coder(
  args: string[],
  options: { env: NodeJS.ProcessEnv; stdin?: string; timeoutMs?: number; cwd?: string; program?: readonly string[] },
): Promise<Finished> {
  const [file, ...first] = options.program ?? PROGRAM;
  const child = spawn(file!, [...first, ...args], {
    env: options.env,
    cwd: options.cwd,
    stdio: [options.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout!.on('data', (data: Buffer) => out.push(data));
  child.stderr!.on('data', (data: Buffer) => err.push(data));
  if (options.stdin !== undefined) child.stdin!.end(options.stdin);
  const timer = setTimeout(() => child.kill('SIGKILL'), options.timeoutMs ?? 60_000);
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearTimeout(timer);
  return { code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() };
}

/** What the coder command writes to its standard output. Fails unless it exits with 0. */
export async function coderOutput(args: string[], options: Parameters<typeof coder>[1]): Promise<string> {
  const done = await coder(args, options);
  assert.equal(done.code, 0, `coder ${args.join(' ')}\n${done.stdout}${done.stderr}`);
  return done.stdout;
}

/** The flags of `coder login` that create the account `PERSON`. */
export const FIRST_USER: readonly string[] = [
  ...['--first-user-username', PERSON.username],
  ...['--first-user-email', PERSON.email, '--first-user-password', PERSON.password],
];

/** Makes the first user, a template and the workspace `dev`, all by the command, in this folder. */
export async function startFirstWorkspace(server: ServerProcess, cwd: string): Promise<void> {
  const run = (...args: string[]) => coderOutput(args, { env: server.env, cwd });
  await run('login', server.url, ...FIRST_USER);
  server.token = readFileSync(join(server.configDir, 'session'), 'utf8').trim();
  await run('templates', 'init', '--id', 'local');
  await run('templates', 'push', 'local', '-d', './local', '-y');
  await run('create', 'dev', '--template', 'local', '-y');
}

export interface RunningProgram {
  child: ChildProcessWithoutNullStreams;
  /** What it has written to its standard output, a character for each byte. */
  out(): string;
  /** What it has written to its standard error. */
  err(): string;
  /** Its exit status, once it has ended and closed its output. */
  ended: Promise<number | null>;
}

/** Starts a program, such as the coder command: `startProgram(PROGRAM, ['ssh', 'dev'], { env })`. */
export function startProgram(
  [file, ...first]: readonly string[],
  args: readonly string[],
  options: { env: NodeJS.ProcessEnv; cwd?: string },
): RunningProgram {
  const child = spawn(file!, [...first, ...args], { ...options, stdio: 'pipe' });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data: Buffer) => {
    out += data.toString('latin1');
  });
  child.stderr.on('data', (data: Buffer) => {
    err += data;
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, out: () => out, err: () => err, ended };
}

/**
 * Builds the executable in dist/, which workspaces download, if a source file is newer. One build runs at a time. The default
 * architecture is this machine's.
 */
export async function ensureExecutable(arch = process.arch === 'arm64' ? 'arm64' : 'amd64'): Promise<string> {
  const file = join(root, 'dist', `coder-${process.platform}-${arch}`);
  const parts = [
    'packages/*/src/**/*',
    'scripts/*.ts',
    'scripts/executable/*',
    'examples/**/*',
    'deploy/systemd/*',
    'install.sh',
  ];
  const sources = globSync([...parts, 'package-lock.json'], { cwd: root });
  const newest = Math.max(...sources.map((path) => statSync(join(root, path)).mtimeMs));
  const fresh = () => (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > newest;
  const lock = join(root, 'dist', '.lock');
  await eventually(
    'the executable is built',
    async () => {
      if (fresh()) return true;
      try {
        mkdirSync(dirname(lock), { recursive: true });
        mkdirSync(lock);
      } catch {
        // another test file builds, and touches its lock. One that nobody has touched for long is abandoned.
        if (Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > 60_000) rmdirSync(lock);
        return false;
      }
      const touching = setInterval(() => utimesSync(lock, new Date(), new Date()), 5_000);
      try {
        const system = `${process.platform}-${arch === 'amd64' ? 'x64' : arch}`;
        const child = spawn(process.execPath, [join(root, 'scripts/build.ts'), system], {
          cwd: root,
          stdio: ['ignore', 'ignore', 'inherit'],
        });
        const code = await new Promise((resolve) => child.once('close', resolve));
        assert.equal(code, 0, 'cannot build the executable');
        return true;
      } finally {
        clearInterval(touching);
        rmdirSync(lock);
      }
    },
    280_000,
  );
  return file;
}

/** A person's requests to a server. */
export interface Connection {
  /** Empty until the person has signed in. */
  token: string;
  api<T = unknown>(method: string, path: string, body?: unknown): Promise<{ status: number; body: T }>;
}

export function connectTo(url: string): Connection {
  const connection: Connection = {
    token: '',
    async api<T>(method: string, path: string, body?: unknown) {
      const raw = body instanceof Uint8Array;
      const answer = await fetch(`${url}/api/v2${path}`, {
        method,
        headers: {
          'Coder-Session-Token': connection.token,
          ...(body === undefined ? {} : { 'content-type': raw ? 'application/x-tar' : 'application/json' }),
        },
        ...(body === undefined ? {} : { body: raw ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body) }),
      });
      const text = await answer.text();
      let parsed: unknown = text;
      if ((answer.headers.get('content-type') ?? '').includes('json') && text !== '') parsed = JSON.parse(text);
      return { status: answer.status, body: parsed as T };
    },
  };
  return connection;
}

/** A running `coder server`. Its API calls use the token that `firstUser` stores. */
export interface ServerProcess extends Connection {
  url: string;
  configDir: string;
  /** The environment of commands that use this server. */
  env: NodeJS.ProcessEnv;
  child: ChildProcess;
  log(): string;
  /** The URL of its database. Undefined with the bundled database. */
  databaseUrl: string | undefined;
  /** Starts the ended server again, at the same address and with the same data. */
  restart(): Promise<void>;
  /** Sends SIGKILL to the server only. */
  kill(): Promise<void>;
  /** Sends SIGTERM, and returns the exit code, or the signal that ended the server. */
  terminate(): Promise<number | NodeJS.Signals>;
  /** The pid of the built-in daemons' process. */
  daemonsPid(): Promise<number>;
  /** The bundled PostgreSQL's first process. */
  postmaster(): number | undefined;
  /**
   * Sends SIGKILL to that process and returns its pid. Connections can survive for a moment. The server starts
   * PostgreSQL again.
   */
  killDatabase(): Promise<number>;
  stop(): Promise<void>;
}

export interface ServerProcessOptions {
  env?: NodeJS.ProcessEnv;
  /** The coder command to run. Default: PROGRAM. */
  program?: readonly string[];
  /** Whether to use the bundled PostgreSQL. Default: a new database on the test run's PostgreSQL. */
  bundled?: boolean;
  /** Uses the database of this server, as a second server of the same deployment. Stop it before the other one. */
  joins?: ServerProcess;
  /** A free port to listen on, where another server must know the address first. */
  port?: number;
  /** Whether to return without waiting until the server is ready. */
  expectFailure?: boolean;
}

/** What a server under test is configured with, besides its caller's variables. */
function serverVariables(configDir: string, port: number, databaseUrl: string | undefined): NodeJS.ProcessEnv {
  return {
    CODER_HTTP_ADDRESS: `127.0.0.1:${port}`,
    CODER_CACHE_DIRECTORY: join(configDir, 'cache'),
    CODER_VERBOSE: 'true',
    CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'true',
    // a test or a benchmark may build hundreds of workspaces as one person
    CODER_MAX_WORKSPACES_PER_USER: '0',
    CODER_MAX_PENDING_JOBS_PER_USER: '0',
    // at the end of a test, a stopped server does not wait for builds
    CODER_PROVISIONER_DRAIN_TIMEOUT: '0',
    CODER_SHUTDOWN_DELAY: '0s',
    ...(databaseUrl ? { CODER_PG_CONNECTION_URL: databaseUrl } : {}),
  };
}

/** Starts the real `coder server` in its own process, with its built-in daemons. */
export async function startCoderServer(options: ServerProcessOptions = {}): Promise<ServerProcess> {
  const configDir = mkdtempSync(join(tmpdir(), 'platform-e2e-'));
  const { joins } = options;
  const database = joins || options.bundled ? undefined : await freshDatabase();
  const databaseUrl = joins ? joins.databaseUrl : database?.url;
  const port = options.port ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const base: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    HOME: configDir,
    TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    CODER_CONFIG_DIR: configDir,
  };
  const serverEnv = { ...base, ...serverVariables(configDir, port, databaseUrl), ...options.env };
  let log = '';
  const launch = (): ChildProcess => {
    const [file, ...first] = options.program ?? PROGRAM;
    const child = spawn(file!, [...first, 'server'], { env: serverEnv, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.on('data', (data: Buffer) => {
        log = (log + data.toString()).slice(-1_000_000);
      });
    }
    return child;
  };
  const ready = async (child: ChildProcess) => {
    await eventually('the server is ready', async () => {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}: ${log}`);
      return answers(`${url}/readyz`);
    });
  };
  const connection = connectTo(url);
  if (joins) connection.token = joins.token;
  const server: ServerProcess = {
    url,
    configDir,
    env: base,
    child: launch(),
    log: () => log,
    get token() {
      return connection.token;
    },
    set token(token) {
      connection.token = token;
    },
    databaseUrl,
    api: (method, path, body) => connection.api(method, path, body),
    async restart() {
      server.child = launch();
      await ready(server.child);
    },
    async kill() {
      const ended = new Promise((resolve) => server.child.once('close', resolve));
      const gone = new Promise((resolve) => server.child.once('exit', resolve));
      server.child.kill('SIGKILL');
      // the daemons can keep its pipes open
      await Promise.race([ended, gone]);
    },
    async terminate() {
      const gone = once(server.child, 'exit') as Promise<[number | null, NodeJS.Signals]>;
      server.child.kill('SIGTERM');
      const [code, signal] = await gone;
      return code ?? signal;
    },
    async daemonsPid() {
      return eventually('the daemons are running', async () => childOf(server.child.pid!));
    },
    postmaster() {
      const places = [directoryHash(configDir), configDir];
      // processes that serve connections have other titles
      return processes().find(
        ({ text }) => text.includes('postgres -D') && places.some((place) => text.includes(place)),
      )?.pid;
    },
    async killDatabase() {
      const pid = await eventually('the bundled PostgreSQL runs', () => server.postmaster());
      process.kill(pid, 'SIGKILL');
      return pid;
    },
    async stop() {
      if (server.child.exitCode === null && server.child.signalCode === null) {
        const gone = new Promise((resolve) => server.child.once('exit', resolve));
        server.child.kill('SIGTERM');
        const timer = setTimeout(() => server.child.kill('SIGKILL'), 15_000);
        await gone;
        clearTimeout(timer);
      }
      server.child.stdout!.destroy();
      server.child.stderr!.destroy();
      killLeftovers(configDir, serverEnv['CODER_ACCESS_URL'] ?? url);
      // processes that were killed may still be ending
      rmSync(configDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 });
      removeKept(configDir);
      await database?.drop();
    },
  };
  if (options.expectFailure) return server;
  await ready(server.child);
  return server;
}

function processes(): { pid: number; parent: number; text: string }[] {
  return processIds().flatMap((pid) => {
    try {
      const parent = Number(/\) \S (\d+)/.exec(readProc(pid, 'stat'))?.[1]);
      return [{ pid, parent, text: readProc(pid, 'cmdline').replaceAll('\0', ' ') }];
    } catch {
      return [];
    }
  });
}

/** The running processes below this one. */
export function descendants(pid: number): { pid: number; text: string }[] {
  const all = processes();
  const below = (parent: number): typeof all =>
    all.filter((each) => each.parent === parent).flatMap((each) => [each, ...below(each.pid)]);
  return below(pid);
}

function childOf(pid: number): number | undefined {
  return processes().find((entry) => entry.parent === pid && entry.text.includes('provisioner builtin'))?.pid;
}

function readProc(pid: number, file: string): string {
  return readFileSync(`/proc/${pid}/${file}`, 'utf8');
}

/** Kills the agents and runners of a test, which have the server's address or folder in their environment. */
function killLeftovers(configDir: string, url: string): void {
  for (const { pid } of processes()) {
    if (pid === process.pid) continue;
    try {
      const environment = readProc(pid, 'environ');
      if (!environment.includes(url) && !environment.includes(configDir)) continue;
      process.kill(pid, 'SIGKILL');
      // the next agent of the same user would remove them, and there is none
      for (const dir of globSync(`/tmp/agent-*-${pid}-??????`)) rmSync(dir, { recursive: true, force: true });
    } catch {
      // ended, or not ours
    }
  }
}

/** Sends SIGKILL to a process and all its descendants. It finds all of them before it kills the first. */
export function killTree(pid: number): number[] {
  const found = [pid, ...descendants(pid).map((entry) => entry.pid)];
  for (const one of found) {
    try {
      process.kill(one, 'SIGKILL');
    } catch {
      // gone
    }
  }
  return found;
}

/** Kills the daemons, their runner and its terraform, and removes the folders of their sessions. */
export function killDaemonsAndSessions(configDir: string, daemonsPid: number): { sessions: string[] } {
  const dir = readlinkSync(`/proc/${daemonsPid}/cwd`);
  const mine = processes().filter(({ pid, text }) => {
    try {
      return /provisioner (builtin|runner)|runner\/entry|terraform apply/.test(text) && belongsTo(pid, dir);
    } catch {
      return false;
    }
  });
  // parents first: one that outlives its child reports how the child ended. Pids start over, so they have no order
  const rank = ({ text }: { text: string }) =>
    [/builtin/, /runner/, /terraform apply/].findIndex((part) => part.test(text));
  for (const { pid } of mine.toSorted((a, b) => rank(a) - rank(b))) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone
    }
  }
  // as root, the folders are in the daemons' own folder, else in the server's cache directory
  const sessions = [dir, join(configDir, 'cache')].flatMap((base) =>
    globSync('provisioner-*/work/Session*', { cwd: base }).map((session) => join(base, session)),
  );
  for (const session of sessions) rmSync(session, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 });
  return { sessions };
}

/** Whether a process works for the daemons of this folder: its or an ancestor's working directory is in the folder. */
function belongsTo(pid: number, dir: string): boolean {
  if (readlinkSync(`/proc/${pid}/cwd`).startsWith(dir)) return true;
  return readProc(pid, 'environ').includes(dir);
}

/** Creates the first user, signs in and stores the token in `server`. */
export async function firstUser(server: Connection): Promise<void> {
  const made = await server.api('POST', '/users/first', PERSON);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  server.token = await tokenOf(server, PERSON);
}

/** The environment of a command whose person has the token of the server. */
export const signedInEnv = ({ env, url, token }: Pick<ServerProcess, 'env' | 'url' | 'token'>): NodeJS.ProcessEnv => ({
  ...env,
  CODER_URL: url,
  CODER_SESSION_TOKEN: token,
});

/** A server with an executable for workspaces. Its first user is signed in, and so are the commands with its `env`. */
export async function startSignedInServer(): Promise<ServerProcess> {
  await ensureExecutable();
  const server = await startCoderServer();
  await firstUser(server);
  server.env = signedInEnv(server);
  return server;
}

/** Signs a person in and returns the token of the session. */
export async function tokenOf(
  server: Connection,
  { email, password }: { email: string; password: string },
): Promise<string> {
  // a sign-in rejects the other fields of an account
  const login = await server.api<{ session_token: string }>('POST', '/users/login', { email, password });
  assert.equal(login.status, 201, JSON.stringify(login.body));
  return login.body.session_token;
}

/** Creates another owner, whose roles can change. */
export async function addOwner(server: Connection, username: string) {
  const { body } = await server.api<{ organization_ids: string[] }>('GET', '/users/me');
  const account = { username, email: `${username}@example.com`, password: PERSON.password };
  const { organization_ids } = body;
  const made = await server.api('POST', '/users', { ...account, organization_ids, login_type: 'password' });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const setRoles = async (roles: string[]) => {
    assert.equal((await server.api('PUT', `/users/${username}/roles`, { roles })).status, 200);
  };
  await setRoles(['owner']);
  return { token: await tokenOf(server, account), setRoles };
}

export interface Job {
  id: string;
  status: string;
  error?: string;
  completed_at?: string;
}

interface Version {
  id: string;
  job: Job;
}

/** Uploads files as a template version. Its import waits for a daemon. */
export async function postVersion(server: Connection, files: Record<string, string>, extra: object = {}) {
  const tar = await writeTar(
    Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text), mode: 0o644 })),
  );
  const file = await server.api<{ hash: string }>('POST', '/files', tar);
  const made = await server.api<Version>('POST', '/organizations/default/templateversions', {
    file_id: file.body.hash,
    provisioner: 'terraform',
    storage_method: 'file',
    ...extra,
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}

export async function importEnds(server: Connection, versionId: string): Promise<Version> {
  return eventually(
    'the import ends',
    async () => {
      const answer = await server.api<Version>('GET', `/templateversions/${versionId}`).catch(() => undefined);
      return answer?.body.job?.completed_at ? answer.body : undefined;
    },
    60_000,
  );
}

/** Uploads files as a template version and waits for its import. */
export async function importVersion(
  server: Connection,
  files: Record<string, string>,
  extra: object = {},
): Promise<Version> {
  return importEnds(server, (await postVersion(server, files, extra)).id);
}

/** Imports a version with the built-in daemons, creates a template from it, and returns the id of the template. */
export async function makeTemplate(
  server: Connection,
  name: string,
  files: Record<string, string>,
  extra: object = {},
): Promise<string> {
  const version = await importVersion(server, files, extra);
  assert.equal(version.job.status, 'succeeded', version.job.error ?? '');
  const made = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
    name,
    template_version_id: version.id,
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.id;
}

export interface Build {
  id: string;
  status: string;
  job: Job;
  resources: {
    type: string;
    name: string;
    agents?: { id: string; name: string; status: string; lifecycle_state: string }[];
  }[];
}
export interface Workspace {
  id: string;
  name: string;
  latest_build: Build;
}

/** Creates a workspace of the first user. Its build has not ended: see `buildEnds`. */
export async function createWorkspace(
  server: Connection,
  templateId: string,
  name: string,
  extra: object = {},
): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { name, template_id: templateId, ...extra });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}

/** Waits until a build has ended, with any status, and returns it. */
export async function buildEnds(server: Connection, buildId: string, timeoutMs = 60_000): Promise<Build> {
  return eventually(
    `build ${buildId} ends`,
    async () => {
      const answer = await server.api<Build>('GET', `/workspacebuilds/${buildId}`).catch(() => undefined);
      return answer?.body.job?.completed_at ? answer.body : undefined;
    },
    timeoutMs,
  );
}

export async function buildLog(server: Connection, buildId: string): Promise<string> {
  const { body } = await server.api<{ stage: string; output: string }[]>('GET', `/workspacebuilds/${buildId}/logs`);
  return body.map((line) => line.output).join('\n');
}

/** The beginning of a template: the declared agent `main`. It becomes part of a workspace with a resource that uses it. */
export const AGENT = `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
`;

/** A template with one resource, which has one agent. Nothing starts the agent. */
export const AGENT_TEMPLATE: Readonly<Record<string, string>> = {
  'main.tf': `${AGENT}resource "terraform_data" "machine" {
  input = coder_agent.main.id
}
`,
};

/** A template with a declared agent that never runs, and an apply that runs a shell command. */
export function commandTemplate(command: string): Record<string, string> {
  return {
    'main.tf': `${AGENT}data "coder_workspace" "me" {}
resource "terraform_data" "first" {
  input = "first"
}
resource "terraform_data" "machine" {
  count      = data.coder_workspace.me.start_count
  depends_on = [terraform_data.first]
  input      = coder_agent.main.id
  provisioner "local-exec" {
    command = ${JSON.stringify(command)}
  }
}
`,
  };
}
