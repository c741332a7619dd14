import { constants, type WriteStream } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { ensureDirectory, errorText, type GroupChild, type Logger } from '@ropewalk/kit';
import { type CronSchedule, nextRun, parseCron } from '@ropewalk/kit/cron';
import { Log_Level, Timing_Stage, Timing_Status, type WorkspaceAgentScript } from '@ropewalk/wire/proto/agent';
import { uuidText } from '@ropewalk/wire/uuid';
import { scriptCommand } from './command.ts';
import { defaultLogDir, SCRIPT_DATA } from './data-dir.ts';
import { expandPath } from './environment.ts';
import type { LogSender } from './logs.ts';
import type { AgentMetrics } from './metrics.ts';
import { Notifier } from './notifier.ts';
import { type PipedChild, spawnPiped } from './piped-child.ts';
import { runningPrograms } from './running-programs.ts';
import { type Outcome, runInOrder } from './script-order.ts';
import { ScriptOutput } from './script-output.ts';
import { stopGroup, trySignalGroup } from './signals.ts';
import { durationMs, type Routine } from './wire-types.ts';
import type { Workspace } from './workspace.ts';

/** The time between a timeout's SIGTERM and SIGKILL, in ms. */
const KILL_GRACE_MS = 2_000;
/** The limit of setTimeout, about 24 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** Opening a pipe that nobody reads fails with O_NONBLOCK. Without it, the open call would wait for a reader forever. */
const APPEND = constants.O_APPEND | constants.O_CREAT | constants.O_WRONLY | (constants.O_NONBLOCK ?? 0);

export type ScriptOutcome = 'ok' | 'failed' | 'timed_out';

/** How a script ended. `unlogged`: its log file could not be opened. */
interface Ended {
  exitCode: number;
  status: Timing_Status;
  unlogged?: boolean;
}

interface Completed {
  script: WorkspaceAgentScript;
  start: Date;
  end: Date;
  exitCode: number;
  stage: Timing_Stage;
  status: Timing_Status;
}

export interface Scripts {
  /** Runs the scripts of a stage in parallel, or in the order of the template, then those of dev containers. Returns the worst outcome. */
  runStage(workspace: Workspace, stage: Timing_Stage.START | Timing_Stage.STOP): Promise<ScriptOutcome>;
  startCron(workspace: Workspace): void;
  /** Reports to the server how scripts ended. */
  report: Routine;
  /** Stops the schedule and running scripts. */
  close(): Promise<void>;
}

/** Starts the dev container whose script this is, and returns an exit status. */
export type ContainerStart = (script: WorkspaceAgentScript) => Promise<number>;

/** Runs one script and returns how it ended. */
type Work = (workspace: Workspace, script: WorkspaceAgentScript) => Promise<Ended>;

interface ScriptsOptions {
  logs: LogSender;
  log: Logger;
  metrics: AgentMetrics;
}

export function createScripts(options: ScriptsOptions, startContainer: ContainerStart): Scripts {
  return new AgentScripts(options, startContainer);
}

class AgentScripts implements Scripts {
  readonly #logs: LogSender;
  readonly #log: Logger;
  readonly #metrics: AgentMetrics;
  readonly #startContainer: ContainerStart;
  /** The runs that the server has not received yet. */
  readonly #completed: Completed[] = [];
  readonly #added = new Notifier();
  readonly #running = new Set<GroupChild>();
  /** Process groups whose script has ended but that still hold its output open. */
  readonly #left = new Set<number>();
  readonly #cron = new AbortController();
  #closed = false;

  constructor({ logs, log, metrics }: ScriptsOptions, startContainer: ContainerStart) {
    this.#logs = logs;
    this.#log = log;
    this.#metrics = metrics;
    this.#startContainer = startContainer;
  }

  async runStage(workspace: Workspace, stage: Timing_Stage.START | Timing_Stage.STOP): Promise<ScriptOutcome> {
    if (stage === Timing_Stage.START) {
      const count = await runningPrograms(workspace).endLeft();
      if (count > 0) this.#log.warn('ended programs that a killed agent has left', { count });
    }
    const scripts = workspace.manifest.scripts.filter((script) =>
      stage === Timing_Stage.START ? script.runOnStart : script.runOnStop,
    );
    // Dev containers need what the other scripts fetch.
    const containers = new Set(workspace.manifest.devcontainers.map(({ id }) => uuidText(id)));
    const isContainer = ({ id }: WorkspaceAgentScript) => containers.has(uuidText(id));
    const runAll = (some: WorkspaceAgentScript[], work: Work) =>
      Promise.all(some.map((script) => this.#run(workspace, script, stage, work)));
    const outcomes: Outcome[] = await runInOrder(
      scripts.filter((script) => !isContainer(script)),
      {
        // one that waited until the agent ends does not start
        run: async (script) => (this.#closed ? 'skipped' : this.#run(workspace, script, stage, this.#execute)),
        skip: (script, { displayName }) =>
          this.#logs.add(
            script.logSourceId,
            Log_Level.WARN,
            `Skipped: the script ${JSON.stringify(displayName)}, which must succeed first, did not.`,
          ),
      },
    );
    if (!this.#closed) outcomes.push(...(await runAll(scripts.filter(isContainer), this.#executeContainer)));
    return outcomes.includes('timed_out') ? 'timed_out' : outcomes.includes('failed') ? 'failed' : 'ok';
  }

  startCron(workspace: Workspace): void {
    for (const script of workspace.manifest.scripts) {
      if (script.cron === '') continue;
      try {
        void this.#runOnSchedule(workspace, script, parseCron(script.cron, 'script'));
      } catch (err) {
        this.#logs.add(script.logSourceId, Log_Level.ERROR, `Invalid schedule: ${errorText(err)}.`);
      }
    }
  }

  readonly report: Routine = async (client, signal) => {
    for (;;) {
      while (this.#completed.length > 0) {
        const { script, start, end, exitCode, stage, status } = this.#completed[0]!;
        const timing = {
          scriptId: script.id,
          start: timestampFromDate(start),
          end: timestampFromDate(end),
          exitCode,
          stage,
          status,
        };
        await client.scriptCompleted({ timing }, { signal });
        this.#completed.shift();
      }
      await this.#added.wait(signal);
    }
  };

  async close(): Promise<void> {
    this.#closed = true;
    this.#cron.abort();
    await Promise.all([...this.#running].map((child) => stopGroup(child, KILL_GRACE_MS)));
    for (const pid of this.#left) trySignalGroup(pid, 'SIGKILL');
  }

  async #runOnSchedule(workspace: Workspace, script: WorkspaceAgentScript, schedule: CronSchedule): Promise<void> {
    let busy = false;
    for (;;) {
      const next = nextRun(schedule, new Date());
      if (!next) return;
      if (!(await sleepUntil(next, this.#cron.signal))) return;
      // Not awaited: a slow run must not hide that the next one is due. But runs must not pile up.
      if (busy) {
        const line = 'Skipped the scheduled run: the previous one is still running.';
        this.#logs.add(script.logSourceId, Log_Level.WARN, line);
        continue;
      }
      busy = true;
      void this.#run(workspace, script, Timing_Stage.CRON, this.#execute).finally(() => {
        busy = false;
      });
    }
  }

  /** Runs a script, logs its failure, and queues the report of its end. */
  async #run(
    workspace: Workspace,
    script: WorkspaceAgentScript,
    stage: Timing_Stage,
    work: Work,
  ): Promise<ScriptOutcome> {
    const start = new Date();
    const name = script.displayName || uuidText(script.logSourceId);
    let result: Ended;
    try {
      result = await work(workspace, script);
    } catch (err) {
      this.#log.warn('could not run a script', { script: name, err: errorText(err) });
      this.#logs.add(script.logSourceId, Log_Level.ERROR, `Could not run the script: ${errorText(err)}`);
      result = { exitCode: 255, status: Timing_Status.EXIT_FAILURE };
    }
    // If the clock was set back, the end would precede the start, which the server rejects.
    const end = new Date(Math.max(Date.now(), start.getTime()));
    const { exitCode, status, unlogged } = result;
    this.#completed.push({ script, start, end, stage, exitCode, status });
    this.#added.notify();
    this.#log.info('a script ended', { script: name, exit_code: exitCode, ms: end.getTime() - start.getTime() });
    void this.#logs.flush();
    const outcome = status === Timing_Status.TIMED_OUT ? 'timed_out' : exitCode === 0 && !unlogged ? 'ok' : 'failed';
    this.#metrics.scriptEnded(outcome === 'ok');
    return outcome;
  }

  /** The agent starts dev containers itself, so that it can start them again later. Their scripts only carry the log. */
  readonly #executeContainer: Work = async (_, script) => {
    const exitCode = await this.#startContainer(script);
    return { exitCode, status: exitCode === 0 ? Timing_Status.OK : Timing_Status.EXIT_FAILURE };
  };

  readonly #execute: Work = async (workspace, script) => {
    const id = uuidText(script.logSourceId);
    const { dataDir, env } = await prepareData(workspace, id);
    const file = await this.#openLog(workspace, script, id, env);
    const unlogged = file === undefined;
    const command = await scriptCommand(script.script, workspace.account.shell, dataDir);
    let piped: PipedChild;
    try {
      if (this.#closed) throw new Error('the agent is shutting down');
      const cwd = workspace.directory(env);
      piped = await spawnPiped(command.file, command.args, { cwd, env, stdin: false });
    } catch (err) {
      file?.end();
      await command.cleanup();
      throw err;
    }
    const { child } = piped;
    this.#running.add(child);
    runningPrograms(workspace).add(child);
    const output = new ScriptOutput(piped, { logs: this.#logs, logSource: script.logSourceId, file });
    void output.closed.then(() => this.#left.delete(child.pid));

    const timeoutMs = durationMs(script.timeout);
    const { code, timedOut } = await exitWithin(child, timeoutMs);
    this.#running.delete(child);
    const open = await output.isLeftOpen();
    await command.cleanup();
    if (timedOut) {
      this.#logs.add(
        script.logSourceId,
        Log_Level.ERROR,
        `The script exceeded its timeout of ${timeoutMs / 1000} s and was stopped.`,
      );
      return { exitCode: 255, status: Timing_Status.TIMED_OUT, unlogged };
    }
    const exitCode = code ?? 255;
    if (open) {
      // Background processes keep their output: it still goes to the log. They end with the agent.
      this.#left.add(child.pid);
      this.#log.info('a script left its output open', { log_source: id });
    }
    if (exitCode !== 0) return { exitCode, status: Timing_Status.EXIT_FAILURE, unlogged };
    return { exitCode, status: open ? Timing_Status.PIPES_LEFT_OPEN : Timing_Status.OK, unlogged };
  };

  /** Opens a script's log file. Returns undefined if that fails: the script runs without it, and its log says so. */
  async #openLog(
    workspace: Workspace,
    script: WorkspaceAgentScript,
    id: string,
    env: NodeJS.ProcessEnv,
  ): Promise<WriteStream | undefined> {
    const { workspaceId, agentName } = workspace.manifest;
    const logDir = workspace.options.logDir ?? defaultLogDir(tmpdir(), `${uuidText(workspaceId)}-${agentName}`);
    const path = expandPath(script.logPath || `coder-script-${id}.log`, workspace.account, env, logDir);
    try {
      await ensureDirectory(dirname(path));
      const file = (await openFile(path, APPEND, 0o600)).createWriteStream();
      file.on('error', (err) => this.#log.warn('could not write the log of a script', { path, err: err.message }));
      return file;
    } catch (err) {
      this.#log.warn('could not open the log of a script', { path, err: errorText(err) });
      const what = `Cannot write the log file ${JSON.stringify(path)}: ${errorText(err)}.`;
      const advice = 'The script runs without it. Choose a log_path that the agent can write.';
      this.#logs.add(script.logSourceId, Log_Level.ERROR, `${what} ${advice}`);
      return undefined;
    }
  }
}

/** Creates the directories of a script's data. Returns its own one, and the environment that names both. */
async function prepareData(workspace: Workspace, id: string) {
  const base = join(workspace.options.scriptDataDir ?? tmpdir(), SCRIPT_DATA);
  const dataDir = join(base, id);
  const binDir = join(base, 'bin');
  await ensureDirectory(dataDir, { mode: 0o700 });
  await ensureDirectory(binDir, { mode: 0o700 });
  const env = workspace.environment({ CODER_SCRIPT_DATA_DIR: dataDir, CODER_SCRIPT_BIN_DIR: binDir });
  return { dataDir, env };
}

/** Waits for a script's end and stops it when its timeout expires. 0: it has none. */
async function exitWithin(child: GroupChild, timeoutMs: number): Promise<{ code: number | null; timedOut: boolean }> {
  let timedOut = false;
  const stop = () => {
    timedOut = true;
    void stopGroup(child, KILL_GRACE_MS);
  };
  const timer = timeoutMs > 0 ? setTimeout(stop, Math.min(timeoutMs, LONGEST_TIMER_MS)) : undefined;
  const { code } = await child.exited;
  clearTimeout(timer);
  return { code, timedOut };
}

/** Returns false if the signal aborts before the time has come. */
async function sleepUntil(time: Date, signal: AbortSignal): Promise<boolean> {
  for (let wait = time.getTime() - Date.now(); wait > 0; wait = time.getTime() - Date.now()) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, Math.min(wait, LONGEST_TIMER_MS));
      function done() {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      }
      signal.addEventListener('abort', done, { once: true });
    });
    if (signal.aborted) return false;
  }
  return true;
}
