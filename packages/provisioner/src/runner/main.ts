import { type FileHandle, open } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises';
import { createLogger, type Exit, errorText, silentLogger, spawnGroup, stderrSink } from '@ropewalk/kit';
import { replaceFile } from '@ropewalk/kit/files';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { processRef } from '@ropewalk/kit/process-ref';
import { startProvider } from '@ropewalk/terraform-provider';
import { Launcher, type Outputs } from '../isolation/client.ts';
import { endRest } from '../terraform/signal.ts';
import { watchMemory } from './memory.ts';
import type { Preparation, ProcessRef, RunExit, RunnerCommand, RunnerEvent, RunSpec } from './protocol.ts';
import { Recorder } from './recorder.ts';

/** The shortest time between two reports of new output, in ms. */
const WAKE_MS = 20;
const DRAIN_MS = 1_000;
const MAX_DRAINS = 5;
/** Writes to the daemon's runner.log. */
const log = createLogger({ sinks: [stderrSink()] });

/**
 * The runner process. It receives runs on stdin, hosts the provider and the terraform of each run, and writes the
 * outcome to files. When the daemon is gone (end of stdin), it waits for its last run and exits.
 */
export function runRunner(): void {
  releaseMemoryWhenIdle();
  let active = 0;
  let orphan = false;
  const endIfIdle = () => {
    if (orphan && active === 0) process.exit(0);
  };
  // The daemon no longer reads. The files hold the outcome.
  process.stdout.on('error', () => {});
  process.stdin.on('error', () => {});
  // A signal to a process group or terminal is for the daemon, which decides whether the run continues.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE'] as const) process.on(name, () => {});
  const send = (event: RunnerEvent) => {
    if (!orphan) process.stdout.write(`${JSON.stringify(event)}\n`);
  };

  const waiting = new Map<string, (spec: RunSpec | undefined) => void>();
  const decide = (key: string, spec?: RunSpec) => {
    waiting.get(key)?.(spec);
    waiting.delete(key);
  };
  const take = (preparation: Preparation) => {
    const begun = new Promise<RunSpec | undefined>((resolve) => waiting.set(preparation.key, resolve));
    active++;
    void whenBegun(preparation, begun, send).finally(() => {
      active--;
      endIfIdle();
    });
  };
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const command = JSON.parse(line) as RunnerCommand;
    if (command.type === 'prepare') take(command.preparation);
    else decide(command.key, command.type === 'begin' ? command.spec : undefined);
  });
  lines.on('close', () => {
    orphan = true;
    for (const key of waiting.keys()) decide(key);
    endIfIdle();
  });
  send({ type: 'ready', runner: processRef(process.pid) ?? { pid: process.pid, startTime: '' } });
}

/** What a run of Terraform needs. */
interface Prepared {
  as: Preparation['as'];
  /** Serves Terraform's calls to the `coder` provider. */
  provider: { reattach: string; close(): Promise<void> } | undefined;
  /** Absent: Terraform runs as this process's user. */
  outputs: Outputs | undefined;
}

async function prepare(preparation: Preparation): Promise<Prepared> {
  const { as } = preparation;
  const [provider, outputs] = await Promise.allSettled([
    serveProvider(preparation),
    as && new Launcher(as.launcher).outputs(),
  ]);
  if (provider.status === 'fulfilled' && outputs.status === 'fulfilled')
    return { as, provider: provider.value, outputs: outputs.value };
  if (provider.status === 'fulfilled') await provider.value?.close().catch(() => {});
  if (outputs.status === 'fulfilled') outputs.value?.close();
  throw provider.status === 'rejected' ? provider.reason : (outputs as PromiseRejectedResult).reason;
}

async function serveProvider({ provider, as }: Preparation): Promise<Prepared['provider']> {
  if (!provider) return undefined;
  // Terraform runs under another uid, which may not signal this process
  const holding = as && new Launcher(as.launcher).hold(as.uid);
  const release = () => holding?.then((hold) => hold.release()).catch(() => {});
  try {
    const own = as ? { gid: as.uid } : {};
    const pid = holding?.then((hold) => hold.pid);
    pid?.catch(() => {});
    const { reattach, close } = await startProvider({ ...provider, ...own, pid, log: silentLogger });
    return { reattach, close: () => close().finally(release) };
  } catch (err) {
    release();
    throw err;
  }
}

/** Starts the provider, and Terraform once the daemon says so. Never rejects. */
async function whenBegun(
  preparation: Preparation,
  begun: Promise<RunSpec | undefined>,
  send: (event: RunnerEvent) => void,
): Promise<void> {
  const preparing = prepare(preparation);
  // reported when the run begins
  preparing.catch(() => {});
  const spec = await begun;
  try {
    if (spec) await execute(spec, await preparing, send);
  } catch (err) {
    finish(spec!, { code: null, signal: null, finishedAt: Date.now(), error: errorText(err) }, send);
  }
  const prepared = await preparing.catch(() => undefined);
  prepared?.outputs?.close();
  await prepared?.provider?.close().catch((err) => log.error(`cannot close a provider: ${errorText(err)}`));
}

async function execute(
  spec: RunSpec,
  { as, provider, outputs }: Prepared,
  send: (event: RunnerEvent) => void,
): Promise<void> {
  let wake: NodeJS.Timeout | undefined;
  const recorder = new Recorder(spec.logPath, () => {
    wake ??= setTimeout(() => {
      wake = undefined;
      send({ type: 'output', id: spec.id });
    }, WAKE_MS);
  });
  const output = spec.outputPath === undefined ? undefined : await open(spec.outputPath, 'w', 0o600);
  let exit: RunExit;
  try {
    const env = provider ? { ...spec.env, TF_REATTACH_PROVIDERS: provider.reattach } : spec.env;
    const { terraform, stdout, stderr, exited } = await (as ? launch(spec, as, env, outputs) : start(spec, env));
    // rejects if the file gets less than what the process printed
    const copied = output && copy(stdout, output);
    copied?.catch(() => {});
    const streams = [copied ?? recorder.consume(stdout, 'o'), recorder.consume(stderr, 'e')];
    // not before someone reads: Node.js discards what a process that has ended printed to nobody
    keep(spec, 'the process', spec.startedPath, terraform);
    send({ type: 'started', id: spec.id, terraform });
    let tooMuch = false;
    const unwatch = watchMemory(terraform.pid, spec.memoryLimit ?? Number.POSITIVE_INFINITY, () => {
      tooMuch = true;
      void kill(terraform, as);
    });
    const ended: Omit<RunExit, 'finishedAt'> = await exited
      .catch((err) => ({ code: null, signal: null, error: errorText(err), unknown: true }))
      .finally(unwatch);
    // A process that the template left in the background (for example, an agent) may keep the pipes open. The run does
    // not wait for it.
    const drained = Promise.allSettled(streams);
    const over = new AbortController();
    await Promise.race([drained, idle([stdout, stderr], over.signal)]);
    over.abort();
    stdout.destroy();
    stderr.destroy();
    await drained;
    exit = { ...ended, finishedAt: Date.now() };
    if (tooMuch) exit.error = tooMuchMemory(spec.memoryLimit!);
    else if (ended.code === 0) {
      await copied?.catch((err) => {
        exit.error = `its output could not be stored: ${errorText(err)}`;
      });
    }
  } catch (err) {
    exit = { code: null, signal: null, finishedAt: Date.now(), error: errorText(err) };
  }
  const lost = recorder.close();
  if (lost) exit.lost = lost;
  clearTimeout(wake);
  await output?.close();
  finish(spec, exit, send);
}

/** Kills Terraform and its providers. What it has created so far is in its state file. */
async function kill(terraform: ProcessRef, as: Preparation['as']): Promise<void> {
  try {
    if (as) await new Launcher(as.launcher).signal(terraform, 'SIGKILL');
    else process.kill(-terraform.pid, 'SIGKILL');
  } catch (err) {
    log.error(`cannot kill a run that uses too much memory: ${errorText(err)}`);
  }
}

const tooMuchMemory = (limit: number): string =>
  `it used more than ${(limit / 1024 ** 3).toFixed(1)} GiB of memory and was killed. Look for expressions of the template that grow without end`;

interface Started {
  terraform: ProcessRef;
  stdout: Socket;
  stderr: Socket;
  exited: Promise<Exit>;
}

async function start(spec: RunSpec, env: Record<string, string>): Promise<Started> {
  const {
    process: child,
    pid,
    exited,
  } = await spawnGroup(spec.binary, spec.args, {
    cwd: spec.cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const terraform = processRef(pid) ?? { pid, startTime: '' };
  void exited.then((exit) => endRest(pid, exit));
  return { terraform, stdout: child.stdout as Socket, stderr: child.stderr as Socket, exited };
}

async function launch(
  spec: RunSpec,
  { launcher, uid }: NonNullable<Preparation['as']>,
  env: Record<string, string>,
  outputs: Outputs | undefined,
) {
  const { binary: file, args, cwd } = spec;
  const { process: terraform, ...rest } = await new Launcher(launcher).run({ uid, file, args, cwd, env }, outputs);
  return { terraform, ...rest };
}

/** Copies what arrives until the stream ends or is destroyed. */
async function copy(stream: Readable, file: FileHandle): Promise<void> {
  let failed: { err: unknown } | undefined;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      await file.writeFile(chunk).catch((err) => {
        failed ??= { err };
      });
    }
  } catch (err) {
    // a process in the background keeps the pipe open
    if ((err as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw err;
  }
  if (failed) throw failed.err;
}

/**
 * Resolves when nothing arrived on the streams for `DRAIN_MS`. A runner that got no processor meanwhile first reads what is
 * there. A process in the background may print for ever, so it ends after `MAX_DRAINS` such times.
 */
async function idle(streams: readonly Socket[], signal: AbortSignal): Promise<void> {
  const arrived = () => streams.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
  for (let drains = 0; drains < MAX_DRAINS; drains++) {
    const before = arrived();
    await delay(DRAIN_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await immediate();
    if (arrived() === before && streams.every(({ readableLength }) => readableLength === 0)) return;
  }
}

function finish(spec: RunSpec, exit: RunExit, send: (event: RunnerEvent) => void): void {
  keep(spec, 'the outcome', spec.exitPath, exit);
  send({ type: 'exited', id: spec.id, exit });
}

/** Writes a file for later daemons. If that fails (the folder is gone, the disk is full), all runs still continue. */
function keep(spec: RunSpec, what: string, path: string, value: ProcessRef | RunExit): void {
  try {
    replaceFile(path, JSON.stringify(value));
  } catch (err) {
    log.error(`cannot store ${what} of run ${spec.id}: ${errorText(err)}`);
  }
}
