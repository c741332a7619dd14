import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { BUILT_IN_PROVIDER, dependencyGraph, providersWithoutModules, Template } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import { isAlive } from '@ropewalk/kit/process-ref';
import { isAtLeast } from '@ropewalk/kit/version';
import { ADDRESSES } from '@ropewalk/terraform-provider';
import type { VariableValue } from '@ropewalk/wire/proto/provisioner';
import type { BuildUser } from '../isolation/protocol.ts';
import { shareTree } from '../isolation/tree.ts';
import { type PlanFile, stateProviders } from '../resources/model.ts';
import type { PreparedRun } from '../runner/client.ts';
import { memoryLimit } from '../runner/memory.ts';
import type { ProcessRef, RunSpec } from '../runner/protocol.ts';
import { type Env, TERRAFORM_ENV } from '../terraform/env.ts';
import { countLines } from '../terraform/logs.ts';
import { LINKED, type Prepared } from '../terraform/prepare.ts';
import { Progress, type TimingStage } from '../terraform/progress.ts';
import { exitText, followRun, type RunResult, readExit, readStarted, runFiles, socketDir } from '../terraform/run.ts';
import { sender } from '../terraform/signal.ts';
import { planSources } from '../terraform/source-files.ts';
import { changeEngine } from './change-engine.ts';
import type { JobContext } from './context.ts';
import type { Delivered } from './log-shipper.ts';

/** Arguments of both `plan` and `apply`. */
export const BASE_ARGS: readonly string[] = ['-no-color', '-input=false', '-json'];
const MAX_OUTPUT = 256 << 20;
const STARTED_POLL_MS = 50;
/** Those that need no download. */
const PRESENT_PROVIDERS: ReadonlySet<string> = new Set([...ADDRESSES, BUILT_IN_PROVIDER]);
/** How Terraform says that the process of a provider has ended. */
const LOST_PROVIDER = /Request cancelled|Plugin did not respond|Unrecognized remote plugin message/;
const PROVIDER_ENDED =
  'The process of a provider ended while Terraform needed it: it crashed, or something killed it, often the system because its memory was full.';

export interface CommandOptions {
  stage: TimingStage;
  /** The CODER_* variables. */
  providerEnv: Env;
  /** Additional variables for terraform's environment. */
  env?: Env;
  /** Called with the run's id and runner before terraform starts, so that a later daemon can find the run. */
  onStarted?: (id: string, runner: ProcessRef) => void;
  /** The log waits for this. If it rejects, the log does not become part of the job's. */
  logAfter?: Promise<void> | undefined;
  /** Called when terraform has ended, before its whole log is delivered. */
  onEnded?: (() => void) | undefined;
}

export interface PlanOptions extends Pick<CommandOptions, 'providerEnv' | 'logAfter' | 'onEnded'> {
  variables: readonly VariableValue[];
  /** Additional arguments. */
  args?: readonly string[];
}

export interface ShownPlan {
  plan: PlanFile;
  json: string;
}

/** A run that can begin. */
interface Provided {
  run: PreparedRun;
  close(): Promise<void>;
}

/** Commands that run while the graph is made. */
export interface Beside {
  /** Resolves when terraform has ended in all of them. */
  ended: Promise<unknown>;
  /** The graph is made, and its log is complete. */
  onGraph(): void;
}

interface PrepareCall {
  linked?: boolean;
  beside?: () => Promise<Beside | undefined>;
}

/** Runs terraform's commands for one job through the runner, and adds their log to the job's log. */
export class JobTerraform {
  readonly progress = new Progress();
  readonly #ctx: JobContext;
  readonly #mayBegin: Promise<void>;
  #count = 0;
  #providers = 0;
  #userFound: Promise<BuildUser | undefined> | undefined;
  #template: Promise<Template | undefined> | undefined;
  /** The provider of a later run, with the variables that it has. */
  #ahead: { env: Env; provided: Promise<Provided> } | undefined;

  /** No program starts before `mayBegin` resolves. If it rejects, none does. */
  constructor(ctx: JobContext, mayBegin: Promise<void>) {
    this.#ctx = ctx;
    this.#mayBegin = mayBegin;
  }

  /** Starts the provider of the next run with these variables before that run. The caller calls `close` at the end. */
  provideAhead(env: Env): void {
    const provided = this.#provide(env);
    // reported by the run
    provided.catch(() => {});
    this.#ahead = { env, provided };
  }

  /** Ends the provider of a run that did not come. */
  async close(): Promise<void> {
    const provided = await this.#ahead?.provided.catch(() => undefined);
    this.#ahead = undefined;
    await provided?.close();
  }

  /** Runs a command whose output is its JSON stream. @throws AppError with upstream's text if the command fails. */
  async run(command: string, args: string[], options: CommandOptions): Promise<void> {
    const result = await this.#execute(command, args, options);
    this.#check(command, result);
  }

  /** Runs a command and returns its output. Its errors go to the log. */
  async capture(command: string, args: string[], options: CommandOptions): Promise<string> {
    const outputPath = join(this.#ctx.session.dir, `${command}-${crypto.randomUUID()}.out`);
    const result = await this.#execute(command, args, options, outputPath);
    this.#check(command, result);
    const { size } = await stat(outputPath);
    if (size > MAX_OUTPUT) throw new AppError('too_large', `terraform ${command} printed ${size} bytes`);
    return readFile(outputPath, 'utf8');
  }

  /** Makes a plan and saves it as `planFile` of the name. Rejects as `run` does. */
  plan(name: string, { variables, args = [], ...options }: PlanOptions): Promise<void> {
    const given = variableArgs(variables);
    return this.run('plan', [...BASE_ARGS, '-refresh=true', `-out=${planFile(name)}`, ...args, ...given.args], {
      ...options,
      stage: 'plan',
      env: given.env,
    });
  }

  /** Reads a saved plan. Returns it with the JSON that Terraform printed. */
  async showPlan(name: string, providerEnv: Env): Promise<ShownPlan> {
    const args = ['-json', '-no-color', planFile(name)];
    const json = await this.capture('show', args, { stage: 'plan', providerEnv });
    try {
      return { plan: JSON.parse(json) as PlanFile, json };
    } catch {
      // for example, a wrapper of terraform that prints additional text
      throw new AppError('internal', `terraform show: the output is not JSON: ${JSON.stringify(json.slice(0, 200))}`);
    }
  }

  /**
   * Prepares the session's directory, from the cache or with `terraform init`, and with `terraform graph` if the template
   * does not show its graph. `beside` is called when the directory is initialized, to start more commands while `graph`
   * runs. Changes the job's engine if a fetched module requires that.
   */
  async prepare(providerEnv: Env, options: PrepareCall = {}): Promise<Prepared> {
    for (let left = this.#ctx.engines.list.length; ; left--) {
      const initialized = { done: false };
      try {
        return await this.#prepare(providerEnv, options, initialized);
      } catch (err) {
        if (initialized.done || left === 0) throw err;
        await changeEngine(this.#ctx, err);
      }
    }
  }

  async #prepare(
    providerEnv: Env,
    { linked = false, beside }: PrepareCall,
    initialized: { done: boolean },
  ): Promise<Prepared> {
    const { job, session, versions, terraform, attachProvider, signal, launcher, port } = this.#ctx;
    const user = await this.#user();
    const { frozenId, fetchModules } = session.entry;
    if (user && !linked) for (const dir of [session.templateDir, session.outDir]) await shareTree(dir, user.uid);
    const span = (action: string) => ({ start: Date.now(), action, resource: 'state file', source: 'terraform' });
    const init = span('initializing terraform');
    let graphSpan: ReturnType<typeof span> | undefined;
    const prepared = await versions.prepare({
      dir: session.templateDir,
      archiveHash: createHash('sha256').update(job.templateSourceArchive).digest('hex'),
      terraform,
      env: this.#env(),
      ...(user && launcher ? { as: { user, launcher, alone: job.type.case !== 'workspaceBuild' } } : {}),
      linked,
      attachProvider,
      signal,
      mayBegin: this.#mayBegin,
      frozen: frozenId && port.frozen ? { ...port.frozen, id: frozenId } : undefined,
      ...(fetchModules ? { fetchModulesFor: job.jobId } : {}),
      onLog: (line) => this.#ctx.shipper.line(line),
      stateProviders: this.#stateProviders(),
      needsInit: () => this.#needsInit(),
      graph: async () => {
        initialized.done = true;
        this.progress.add('init', init, Date.now());
        graphSpan = span('building terraform dependency graph');
        const others = await beside?.();
        const dot =
          (await this.#graphOfTemplate()) ??
          (await this.capture('graph', graphArgs(terraform.version), { stage: 'graph', providerEnv }));
        this.progress.add('graph', graphSpan, Date.now());
        others?.onGraph();
        // the directory's modules move to the cache next
        await others?.ended;
        return dot;
      },
    });
    if (!graphSpan) this.progress.add('init', init, Date.now());
    return prepared;
  }

  /** The initialized template with its modules. Undefined if it cannot be read as a whole. */
  template(): Promise<Template | undefined> {
    const { session } = this.#ctx;
    const read = async () => {
      const files = await planSources(session.templateDir, session.entry.user?.uid);
      return files && new Template({ read: (path) => files.get(path), paths: () => files.keys() });
    };
    this.#template ??= read();
    return this.#template;
  }

  /** The providers of the workspace's state, except those that need no download. */
  #stateProviders(): ReadonlySet<string> {
    const { job, attachProvider } = this.#ctx;
    if (job.type.case !== 'workspaceBuild') return new Set();
    const found = stateProviders(job.type.value.state);
    return found.difference(attachProvider ? PRESENT_PROVIDERS : new Set([BUILT_IN_PROVIDER]));
  }

  /** Not if the template has no modules, and Terraform or the daemon have all its providers. */
  async #needsInit(): Promise<boolean> {
    const { attachProvider, session } = this.#ctx;
    const hasOwn = LINKED.some((name) => existsSync(join(session.templateDir, name)));
    if (!attachProvider || hasOwn || !this.#isKnownEngine()) return true;
    const template = await this.template();
    const providers = template && providersWithoutModules(template);
    if (providers instanceof Set && providers.isSubsetOf(PRESENT_PROVIDERS)) return false;
    // what the init fetches is missing in it
    this.#template = undefined;
    return true;
  }

  /** Whether the parts of its plans and graphs are those that our engine knows. */
  #isKnownEngine(): boolean {
    const { engine, version } = this.#ctx.terraform;
    return engine === 'terraform' && isAtLeast(version, '1.9.0');
  }

  /** Undefined if only Terraform knows the graph. */
  async #graphOfTemplate(): Promise<string | undefined> {
    if (!this.#isKnownEngine()) return undefined;
    const template = await this.template();
    const graph = template && dependencyGraph(template);
    return typeof graph === 'string' ? graph : undefined;
  }

  /** The variables that terraform inherits, with the home of the user that it runs as. */
  #env(): Env {
    const { env, session } = this.#ctx;
    const { user } = session.entry;
    if (!user) return env;
    return {
      ...env,
      HOME: user.home,
      ...(user.tmp ? { TMPDIR: user.tmp } : {}),
      ...(user.name ? { USER: user.name, LOGNAME: user.name } : {}),
    };
  }

  /**
   * Whether a run that an earlier daemon was about to start may have started. Waits until that is certain. If the
   * runner died, or could not write, before it noted Terraform's process, the existence of the log shows that the run
   * started.
   */
  async hasBegun(id: string, runner: ProcessRef): Promise<boolean> {
    const files = runFiles(this.#ctx.session.dir, id);
    for (;;) {
      const alive = isAlive(runner);
      if ((await readExit(files.exitPath)) || (await readStarted(files.startedPath))) return true;
      if (!alive) return existsSync(files.logPath);
      await delay(STARTED_POLL_MS, undefined, { signal: this.#ctx.signal });
    }
  }

  /** Follows a run that an earlier daemon started. */
  async adopt(command: string, id: string, runner: ProcessRef, stage: TimingStage): Promise<void> {
    const files = runFiles(this.#ctx.session.dir, id);
    const logOffset = Number(await readFile(`${files.logPath}.offset`, 'utf8').catch(() => '0')) || 0;
    const lines = await countLines(files.logPath, logOffset);
    const terraform = await readStarted(files.startedPath);
    this.#check(command, await this.#follow(command, id, { runner, terraform, stage, logOffset }, lines));
  }

  async #execute(command: string, args: string[], options: CommandOptions, outputPath?: string): Promise<RunResult> {
    const { session, terraform, job, signal } = this.#ctx;
    const env = this.#env();
    signal.throwIfAborted();
    const id = `${++this.#count}-${command}-${crypto.randomUUID().slice(0, 8)}`;
    const debug = job.type.case === 'workspaceBuild' && job.type.value.logLevel !== '';
    const provided = await this.#provided(options.providerEnv);
    const { run } = provided;
    try {
      const spec: RunSpec = {
        id,
        binary: terraform.path,
        memoryLimit: memoryLimit(),
        args: [command, ...args],
        cwd: session.templateDir,
        env: {
          ...env,
          ...options.providerEnv,
          ...options.env,
          ...TERRAFORM_ENV,
          ...collectorEnv(session.templateDir, env, terraform.version),
          ...(debug ? { TF_LOG: 'JSON' } : {}),
        },
        ...runFiles(session.dir, id),
        ...(outputPath === undefined ? {} : { outputPath }),
      };
      await this.#mayBegin;
      signal.throwIfAborted();
      options.onStarted?.(id, run.runner);
      const live = run.begin(spec);
      if (options.onEnded) void live.exited.catch(() => {}).then(options.onEnded);
      const started = await live.terraform.catch(() => undefined);
      const result = await this.#follow(command, id, {
        runner: run.runner,
        terraform: started,
        stage: options.stage,
        exited: live.exited,
        onOutput: live.onOutput,
        logAfter: options.logAfter,
      });
      // some commands name files with the session's folder
      const relative = result.errors.map((error) => error.replaceAll(`${session.templateDir}/`, ''));
      return { ...result, errors: relative };
    } finally {
      await provided.close();
    }
  }

  /** What a run with these variables needs, which may be there already. The caller closes it. */
  async #provided(providerEnv: Env): Promise<Provided> {
    const ahead = this.#ahead;
    if (ahead?.env !== providerEnv) return this.#provide(providerEnv);
    this.#ahead = undefined;
    return ahead.provided;
  }

  /** Starts the provider, and the process that it needs under the build's uid. */
  async #provide(env: Env): Promise<Provided> {
    const { session, runner, attachProvider, launcher } = this.#ctx;
    const user = await this.#user();
    const sockets = socketDir(session.dir, user && launcher?.socketsDir);
    try {
      const run = await runner.prepare({
        ...(user && launcher ? { as: { launcher: launcher.socketPath, uid: user.uid } } : {}),
        ...(attachProvider
          ? { provider: { socketPath: join(sockets.path, `provider-${++this.#providers}.sock`), env } }
          : {}),
      });
      return {
        run,
        async close() {
          run.drop();
          sockets.remove();
        },
      };
    } catch (err) {
      sockets.remove();
      throw err;
    }
  }

  /** The user that the job's programs run as. Undefined: that of this process. */
  #user(): Promise<BuildUser | undefined> {
    const { job, session, launcher } = this.#ctx;
    const find = async () => {
      if (launcher && !session.entry.user) session.write({ user: await launcher.userOf(job, session.dir) });
      return session.entry.user;
    };
    this.#userFound ??= find();
    return this.#userFound;
  }

  #follow(
    command: string,
    id: string,
    {
      logAfter,
      ...how
    }: Pick<Parameters<typeof followRun>[0], 'runner' | 'terraform' | 'stage' | 'exited' | 'onOutput' | 'logOffset'> &
      Pick<CommandOptions, 'logAfter'>,
    lines = 0,
  ): Promise<RunResult> {
    const files = runFiles(this.#ctx.session.dir, id);
    let sequence = lines;
    return followRun({
      ...how,
      command,
      files,
      progress: this.progress,
      send: sender(this.#ctx.launcher),
      signal: this.#ctx.signal,
      exitTimeoutMs: this.#ctx.exitTimeoutMs,
      onLog: async (line, next) => {
        await logAfter;
        await this.#ctx.shipper.line(line, { origin: id, sequence: ++sequence, next });
      },
    });
  }

  /** @throws AppError if the command has failed. */
  #check(command: string, { exit, errors, applied }: RunResult): void {
    if (exit.code === 0 && !exit.error) return;
    if (exit.unknown && applied) return;
    const { signal } = this.#ctx;
    const first = errors[0] ?? exit.lost?.why;
    const why = first === undefined ? '' : `: ${first}`;
    const crashed = !signal.aborted && errors.some((error) => LOST_PROVIDER.test(error)) ? `\n${PROVIDER_ENDED}` : '';
    throw new AppError('internal', `${exitText(command, exit, signal)}${why}${crashed}`, { detail: errors.join('\n') });
  }

  /** Notes how much of a run's log the server has received, so that a later daemon continues there. */
  noteDelivered({ origin, offset }: Delivered): void {
    const { logPath } = runFiles(this.#ctx.session.dir, origin);
    try {
      writeFileSync(`${logPath}.offset`, String(offset), { mode: 0o600 });
    } catch {
      // for example, the disk is full. The later daemon sends lines that the server knows by their numbers.
    }
  }
}

/** Whether Terraform starts providers as their own processes for an initialized template. */
export function usesPlugins(dir: string): boolean {
  return existsSync(join(dir, '.terraform', 'providers'));
}

/**
 * Variables that turn off Go's garbage collector. Terraform itself runs briefly and needs little memory, and without
 * the collector it takes two thirds of the time. The memory limit turns the collector on again for a large state. Other
 * providers inherit the variables, and some need more memory than any safe limit, so with them this returns nothing.
 */
function collectorEnv(dir: string, env: Env, version: string): Env {
  // Terraform supports GOMEMLIMIT since 1.4
  if (env['GOGC'] !== undefined || env['GOMEMLIMIT'] !== undefined || !isAtLeast(version, '1.4.0')) return {};
  return usesPlugins(dir) ? {} : { GOGC: 'off', GOMEMLIMIT: '1GiB' };
}

/**
 * The path of a saved plan. It is relative to the template, because every process can read the arguments of commands.
 */
export function planFile(name: string): string {
  return join('..', 'out', `${name}.tfplan`);
}

function graphArgs(version: string): string[] {
  return ['-no-color', ...(isAtLeast(version, '1.7.0') ? ['-type=plan'] : [])];
}

/** Variables for plan and apply. Sensitive ones go to the environment: every process can read the command line. */
export function variableArgs(values: readonly VariableValue[]): { args: string[]; env: Env } {
  const args: string[] = [];
  const env: Env = {};
  for (const { name, value, sensitive } of values) {
    if (sensitive) env[`TF_VAR_${name}`] = value;
    else args.push('-var', `${name}=${value}`);
  }
  return { args, env };
}
