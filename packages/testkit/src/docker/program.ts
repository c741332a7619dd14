/**
 * A `docker` command for machines without Docker. It speaks the part of Docker's command line that the devcontainer
 * command and the agent use. A "container" is a folder with a description, and the processes that carry its id in their
 * environment: they run on this machine, without isolation. Its own file system is its folder: paths below
 * /.coder-agent, in arguments and in copies, lie there.
 *
 * Usage: program.ts STATE_DIRECTORY [docker's arguments]
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { isAlive } from '@ropewalk/kit';
import { processIds } from '../processes.ts';

/** How long a new container waits for a follower of events, in ms. Nobody follows those that a person starts. */
const FOLLOWED_MS = 10_000;
/** Marks the processes of a container. */
const MARK = 'STAND_IN_CONTAINER';
const [state = '', verb = '', ...rest] = process.argv.slice(2);
const eventsFile = join(state, 'events');

interface Container {
  id: string;
  name: string;
  image: string;
  created: string;
  running: boolean;
  labels: Record<string, string>;
  env: Record<string, string>;
  mounts: { Type: string; Source: string; Destination: string }[];
  /** As `docker inspect` shows them: by `PORT/NETWORK`. */
  ports: Record<string, { HostIp: string; HostPort: string }[]>;
}

const folder = (id: string) => join(state, 'containers', id);
const save = (container: Container) =>
  writeFileSync(join(folder(container.id), 'container.json'), JSON.stringify(container));

function containers(): Container[] {
  const base = join(state, 'containers');
  return (existsSync(base) ? readdirSync(base) : []).map(
    (id) => JSON.parse(readFileSync(join(base, id, 'container.json'), 'utf8')) as Container,
  );
}

function find(id: string): Container {
  const found = containers().find((container) => container.id.startsWith(id) || container.name === id);
  if (!found) fail(`Error response from daemon: No such container: ${id}`);
  return found;
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

const pairs = (list: string[]) =>
  Object.fromEntries(list.map((text) => [text.split('=', 1)[0]!, text.slice(text.indexOf('=') + 1)]));

/** Replaces paths of the container's own file system. */
const inside = (id: string, text: string) => text.replaceAll('/.coder-agent', join(folder(id), '.coder-agent'));

/** Parses Docker's options and returns the words behind them, which are a container or image and a command. */
function beforeCommand<Options extends ParseArgsOptionsConfig>(options: Options) {
  const { tokens } = parseArgs({ args: rest, tokens: true, strict: false, options });
  const at = tokens.find(({ kind }) => kind === 'positional')?.index ?? rest.length;
  return { values: parseArgs({ args: rest.slice(0, at), options }).values, words: rest.slice(at) };
}

function start(container: Container, args: string[]): ChildProcess {
  const child = spawn(args[0]!, args.slice(1), { detached: true, stdio: 'ignore', env: environment(container) });
  container.running = true;
  save(container);
  const event = { status: 'start', id: container.id, Type: 'container', Action: 'start', Actor: { ID: container.id } };
  appendFileSync(eventsFile, `${JSON.stringify(event)}\n`);
  return child;
}

const environment = ({ id, env }: Container) => ({
  PATH: process.env['PATH'],
  HOME: join(folder(id), 'home'),
  ...env,
  [MARK]: id,
});

/** Kills every process of a container, as the end of a real one does. */
function end(container: Container): void {
  container.running = false;
  save(container);
  const mark = `${MARK}=${container.id}`;
  for (const pid of processIds()) {
    try {
      if (readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(mark)) process.kill(pid, 'SIGKILL');
    } catch {
      // the process ended or belongs to another user
    }
  }
}

/**
 * Resolves once a program follows events. The devcontainer command starts `docker events` and `docker run` at the same
 * time, and waits for the event for ever. Docker takes longer for a container than this program.
 */
async function followed(): Promise<void> {
  for (const until = Date.now() + FOLLOWED_MS; Date.now() < until; ) {
    const pids = readdirSync(state).flatMap((name) => /^follower-(\d+)$/.exec(name)?.[1] ?? []);
    if (pids.some((pid) => isAlive(Number(pid)))) return;
    await setTimeout(20);
  }
}

const verbs: Record<string, () => void> = {
  '-v': () => console.log('Docker version 28.0.0, build standin'),
  version: () => console.log('28.0.0'),
  ps() {
    const { values } = parseArgs({
      args: rest,
      options: {
        quiet: { type: 'boolean', short: 'q' },
        all: { type: 'boolean', short: 'a' },
        'no-trunc': { type: 'boolean' },
        filter: { type: 'string', multiple: true, default: [] },
      },
    });
    const labels = Object.entries(pairs(values.filter.map((text) => text.replace(/^label=/, ''))));
    for (const { id, running, labels: own } of containers()) {
      if ((values.all || running) && labels.every(([name, value]) => own[name] === value)) console.log(id);
    }
  },
  inspect() {
    const { values, positionals } = parseArgs({
      args: rest,
      options: { type: { type: 'string' } },
      allowPositionals: true,
    });
    const described = positionals.map((id) => (values.type === 'image' ? image() : describe(find(id))));
    console.log(JSON.stringify(described));
  },
  async run() {
    const { values, words } = beforeCommand({
      'sig-proxy': { type: 'string' },
      attach: { type: 'string', short: 'a', multiple: true },
      mount: { type: 'string', multiple: true, default: [] },
      label: { type: 'string', short: 'l', multiple: true, default: [] },
      env: { type: 'string', short: 'e', multiple: true, default: [] },
      publish: { type: 'string', short: 'p', multiple: true, default: [] },
      entrypoint: { type: 'string' },
    });
    const id = randomBytes(32).toString('hex');
    mkdirSync(join(folder(id), 'home'), { recursive: true });
    const [name = '', ...args] = words;
    const container: Container = {
      id,
      name: `standin_${id.slice(0, 6)}`,
      image: name,
      created: new Date().toISOString(),
      running: false,
      labels: pairs(values.label),
      env: pairs(values.env),
      mounts: values.mount.map((text) => {
        const { source = '', target = '', type = '' } = pairs(text.split(','));
        return { Type: type, Source: source, Destination: target };
      }),
      ports: Object.fromEntries(
        values.publish.map((text) => {
          const [inner = '', outer = '', ip = '0.0.0.0'] = text.split(':').reverse();
          return [`${inner}/tcp`, [{ HostIp: ip, HostPort: outer }]];
        }),
      ),
    };
    await followed();
    const child = start(container, [values.entrypoint ?? '/bin/sh', ...args]);
    console.log('Container started');
    child.once('exit', () => process.exit());
  },
  start() {
    for (const id of rest) start(find(id), ['/bin/sh', '-c', 'while sleep 1 & wait $!; do :; done']).unref();
  },
  stop() {
    for (const id of rest) end(find(id));
  },
  rm() {
    for (const id of rest.filter((word) => !word.startsWith('-'))) {
      const container = find(id);
      end(container);
      rmSync(folder(container.id), { recursive: true, force: true, maxRetries: 5 });
      console.log(id);
    }
  },
  cp() {
    const [source = '', target = ''] = rest;
    const [, id = '', path = ''] = /^([^:]+):(.*)$/.exec(target) ?? fail('The destination must be CONTAINER:PATH.');
    const to = inside(find(id).id, path);
    if (!existsSync(dirname(to))) fail(`Error response from daemon: Could not find the file ${dirname(path)}`);
    cpSync(source, to, { dereference: true });
  },
  exec() {
    const { values, words } = beforeCommand({
      interactive: { type: 'boolean', short: 'i' },
      tty: { type: 'boolean', short: 't' },
      user: { type: 'string', short: 'u' },
      env: { type: 'string', short: 'e', multiple: true, default: [] },
      workdir: { type: 'string', short: 'w' },
    });
    const container = find(words[0] ?? fail('"docker exec" requires a container.'));
    if (!container.running) fail(`Error response from daemon: container ${container.id} is not running`);
    const [file = '', ...args] = words.slice(1).map((text) => inside(container.id, text));
    const env = values.env.map((text) => inside(container.id, text));
    const child = spawn(file, args, {
      detached: true,
      cwd: values.workdir ?? folder(container.id),
      env: { ...environment(container), ...pairs(env) },
      stdio: [values.interactive ? 'pipe' : 'ignore', 'inherit', 'inherit'],
    });
    if (child.stdin) process.stdin.pipe(child.stdin).on('error', () => {});
    child.once('error', (err) => fail(`OCI runtime exec failed: ${err.message}`));
    child.once('exit', (code) => process.exit(code ?? 137));
  },
  events() {
    appendFileSync(eventsFile, '');
    let shown = readFileSync(eventsFile).length;
    const show = () => {
      const all = readFileSync(eventsFile);
      process.stdout.write(all.subarray(shown));
      shown = all.length;
    };
    watch(eventsFile, show);
    writeFileSync(join(state, `follower-${process.pid}`), '');
    show();
  },
};

const image = () => ({
  Id: `sha256:${'0'.repeat(64)}`,
  Architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
  Os: 'linux',
  Config: { User: '', Env: [], Labels: {}, Entrypoint: null, Cmd: null },
});

const describe = ({ id, name, image: of, created, running, labels, env, mounts, ports }: Container) => ({
  Id: id,
  Name: `/${name}`,
  Created: created,
  State: { Status: running ? 'running' : 'exited', Running: running, StartedAt: created, ExitCode: 0, Error: '' },
  Config: { Image: of, User: '', Env: Object.entries(env).map(([key, value]) => `${key}=${value}`), Labels: labels },
  Mounts: mounts,
  NetworkSettings: { Ports: ports },
});

appendFileSync(join(state, 'commands'), `${JSON.stringify([verb, ...rest])}\n`);
(verbs[verb] ?? (() => fail(`docker: '${verb}' is not a docker command of this stand-in.`)))();
