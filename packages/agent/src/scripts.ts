import { constants, type WriteStream } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { ensureDirectory, errorText, type GroupChild, type Logger } from '@ropewalk/kit';
import { type CronSchedule, nextRun, parseCron } from '@ropewalk/kit/cron';
import { Log_Level, Timing_Stage, Timing_Status, type WorkspaceAgentScript } from '@ropewalk/wire/proto/agent';
import { scriptCommand } from './command.ts';
import { defaultLogDir, SCRIPT_DATA } from './data-dir.ts';
import { expandPath } from './environment.ts';
import { LineSplitter, type LogSender } from './logs.ts';
import type { AgentMetrics } from './metrics.ts';
import { Notifier } from './notifier.ts';
import { type PipedChild, spawnPiped } from './piped-child.ts';
import { runningPrograms } from './running-programs.ts';
import { stopGroup, trySignalGroup } from './signals.ts';
import { durationMs, type Routine, uuidText } from './wire-types.ts';
import type { Workspace } from './workspace.ts';

/** The time between a timeout's SIGTERM and SIGKILL, in ms. */
const KILL_GRACE_MS = 2_000;
/** How long background processes may hold the output open before the script counts as done, in ms. */
const PIPES_GRACE_MS = 1_000;
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
  /** Runs the scripts of a stage in parallel, then those of dev containers. Returns the worst outcome. */
  runStage(workspace: Workspace, stage: Timing_Stage.START | Timing_Stage.STOP): Promise<ScriptOutcome>;
  startCron(workspace: Workspace): void;
  /** Reports to the server how scripts ended. */
  report: Routine;
  /** Stops the schedule and running scripts. */
  close(): Promise<void>;
}

/** Starts the dev container whose script this is, and returns an exit status. */
export type ContainerStart = (script: WorkspaceAgentScript) => Promise<number>;

export function createScripts(
  { logs, log, metrics }: { logs: LogSender; log: Logger; metrics: AgentMetrics },
  startContainer: ContainerStart,
): Scripts {
  const completed: Completed[] = [];
  const added = new Notifier();
  const running = new Set<GroupChild>();
  /** Process groups whose script has ended but that still hold its output open. */
  const left = new Set<number>();
  const cron = new AbortController();
  let closed = false;

  async function run(
    workspace: Workspace,
    script: WorkspaceAgentScript,
    stage: Timing_Stage,
    work = execute,
  ): Promise<ScriptOutcome> {
    const start = new Date();
    const name = script.displayName || uuidText(script.logSourceId);
    let result: Ended;
    try {
      result = await work(workspace, script);
    } catch (err) {
      log.warn('could not run a script', { script: name, err: errorText(err) });
      logs.add(script.logSourceId, Log_Level.ERROR, `Could not run the script: ${errorText(err)}`);
      result = { exitCode: 255, status: Timing_Status.EXIT_FAILURE };
    }
    // If the clock was set back, the end would precede the start, which the server rejects.
    const end = new Date(Math.max(Date.now(), start.getTime()));
    const { exitCode, status, unlogged } = result;
    completed.push({ script, start, end, stage, exitCode, status });
    added.notify();
    log.info('a script ended', { script: name, exit_code: exitCode, ms: end.getTime() - start.getTime() });
    void logs.flush();
    const outcome = status === Timing_Status.TIMED_OUT ? 'timed_out' : exitCode === 0 && !unlogged ? 'ok' : 'failed';
    metrics.scriptEnded(outcome === 'ok');
    return outcome;
  }

  async function execute(workspace: Workspace, script: WorkspaceAgentScript): Promise<Ended> {
    const base = join(workspace.options.scriptDataDir ?? tmpdir(), SCRIPT_DATA);
    const id = uuidText(script.logSourceId);
    const dataDir = join(base, id);
    const binDir = join(base, 'bin');
    await ensureDirectory(dataDir, { mode: 0o700 });
    await ensureDirectory(binDir, { mode: 0o700 });
    const env = workspace.environment({ CODER_SCRIPT_DATA_DIR: dataDir, CODER_SCRIPT_BIN_DIR: binDir });
    const file = await openLog(workspace, script, id, env);
    const unlogged = file === undefined;
    const command = await scriptCommand(script.script, workspace.account.shell, dataDir);
    let piped: PipedChild;
    try {
      if (closed) throw new Error('the agent is shutting down');
      const cwd = workspace.directory(env);
      piped = await spawnPiped(command.file, command.args, { cwd, env, stdin: false });
    } catch (err) {
      file?.end();
      await command.cleanup();
      throw err;
    }
    const { child, stdout, stderr } = piped;
    running.add(child);
    runningPrograms(workspace).add(child);
    let lastOutput = performance.now();
    /** The number of paused streams. Their silence is not the script's. */
    let held = 0;
    const follow = (stream: NodeJS.ReadableStream, level: Log_Level) =>
      new Promise<void>((resolve) => {
        const lines = new LineSplitter((line) => logs.add(script.logSourceId, level, line));
        stream.on('data', (chunk: Buffer) => {
          lastOutput = performance.now();
          lines.push(chunk);
          // A slow disk or a busy server slows the script down. A full disk or an unreachable server must not.
          const waits = [file && roomInFile(file, chunk), logs.room(script.logSourceId)].filter((wait) => wait);
          if (waits.length === 0) return;
          stream.pause();
          held++;
          void Promise.all(waits).then(() => {
            held--;
            lastOutput = performance.now();
            stream.resume();
          });
        });
        stream.on('error', () => {});
        stream.on('close', () => {
          lines.end();
          resolve();
        });
      });
    const pipes = Promise.all([follow(stdout, Log_Level.INFO), follow(stderr, Log_Level.ERROR)]).then(() => {
      left.delete(child.pid);
      file?.end();
    });

    const timeoutMs = durationMs(script.timeout);
    let timedOut = false;
    const timer =
      timeoutMs > 0
        ? setTimeout(
            () => {
              timedOut = true;
              void stopGroup(child, KILL_GRACE_MS);
            },
            Math.min(timeoutMs, LONGEST_TIMER_MS),
          )
        : undefined;
    const exit = await child.exited;
    clearTimeout(timer);
    running.delete(child);
    const open = await Promise.race([
      pipes.then(() => false),
      silence(() => (held > 0 ? performance.now() : lastOutput)),
    ]);
    await command.cleanup();
    if (timedOut) {
      logs.add(
        script.logSourceId,
        Log_Level.ERROR,
        `The script exceeded its timeout of ${timeoutMs / 1000} s and was stopped.`,
      );
      return { exitCode: 255, status: Timing_Status.TIMED_OUT, unlogged };
    }
    const exitCode = exit.code ?? 255;
    if (open) {
      // Background processes keep their output: it still goes to the log. They end with the agent.
      left.add(child.pid);
      log.info('a script left its output open', { log_source: id });
    }
    if (exitCode !== 0) return { exitCode, status: Timing_Status.EXIT_FAILURE, unlogged };
    return { exitCode, status: open ? Timing_Status.PIPES_LEFT_OPEN : Timing_Status.OK, unlogged };
  }

  /** The agent starts dev containers itself, so that it can start them again later. Their scripts only carry the log. */
  const executeContainer: typeof execute = async (_, script) => {
    const exitCode = await startContainer(script);
    return { exitCode, status: exitCode === 0 ? Timing_Status.OK : Timing_Status.EXIT_FAILURE };
  };

  /** Opens a script's log file. Returns undefined if that fails: the script runs without it, and its log says so. */
  async function openLog(
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
      file.on('error', (err) => log.warn('could not write the log of a script', { path, err: err.message }));
      return file;
    } catch (err) {
      log.warn('could not open the log of a script', { path, err: errorText(err) });
      const what = `Cannot write the log file ${JSON.stringify(path)}: ${errorText(err)}.`;
      const advice = 'The script runs without it. Choose a log_path that the agent can write.';
      logs.add(script.logSourceId, Log_Level.ERROR, `${what} ${advice}`);
      return undefined;
    }
  }

  async function schedule(workspace: Workspace, script: WorkspaceAgentScript, cronSchedule: CronSchedule) {
    let busy = false;
    for (;;) {
      const next = nextRun(cronSchedule, new Date());
      if (!next) return;
      for (let wait = next.getTime() - Date.now(); wait > 0; wait = next.getTime() - Date.now()) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(done, Math.min(wait, LONGEST_TIMER_MS));
          function done() {
            clearTimeout(timer);
            cron.signal.removeEventListener('abort', done);
            resolve();
          }
          cron.signal.addEventListener('abort', done, { once: true });
        });
        if (cron.signal.aborted) return;
      }
      // Not awaited: a slow run must not hide that the next one is due. But runs must not pile up.
      if (busy) {
        logs.add(script.logSourceId, Log_Level.WARN, 'Skipped the scheduled run: the previous one is still running.');
        continue;
      }
      busy = true;
      void run(workspace, script, Timing_Stage.CRON).finally(() => {
        busy = false;
      });
    }
  }

  return {
    async runStage(workspace, stage) {
      if (stage === Timing_Stage.START) {
        const count = await runningPrograms(workspace).endLeft();
        if (count > 0) log.warn('ended programs that a killed agent has left', { count });
      }
      const scripts = workspace.manifest.scripts.filter((script) =>
        stage === Timing_Stage.START ? script.runOnStart : script.runOnStop,
      );
      // Dev containers need what the other scripts fetch.
      const containers = new Set(workspace.manifest.devcontainers.map(({ id }) => uuidText(id)));
      const isContainer = ({ id }: WorkspaceAgentScript) => containers.has(uuidText(id));
      const runAll = (some: WorkspaceAgentScript[], work = execute) =>
        Promise.all(some.map((script) => run(workspace, script, stage, work)));
      const outcomes = await runAll(scripts.filter((script) => !isContainer(script)));
      if (!closed) outcomes.push(...(await runAll(scripts.filter(isContainer), executeContainer)));
      return outcomes.includes('timed_out') ? 'timed_out' : outcomes.includes('failed') ? 'failed' : 'ok';
    },
    startCron(workspace) {
      for (const script of workspace.manifest.scripts) {
        if (script.cron === '') continue;
        try {
          void schedule(workspace, script, parseCron(script.cron, 'script'));
        } catch (err) {
          logs.add(script.logSourceId, Log_Level.ERROR, `Invalid schedule: ${errorText(err)}.`);
        }
      }
    },
    async report(client, signal) {
      for (;;) {
        while (completed.length > 0) {
          const { script, start, end, exitCode, stage, status } = completed[0]!;
          const timing = {
            scriptId: script.id,
            start: timestampFromDate(start),
            end: timestampFromDate(end),
            exitCode,
            stage,
            status,
          };
          await client.scriptCompleted({ timing }, { signal });
          completed.shift();
        }
        await added.wait(signal);
      }
    },
    async close() {
      closed = true;
      cron.abort();
      await Promise.all([...running].map((child) => stopGroup(child, KILL_GRACE_MS)));
      for (const pid of left) trySignalGroup(pid, 'SIGKILL');
    },
  };
}

/**
 * Writes to a script's log. Returns undefined if the caller may go on immediately. Otherwise resolves when the log has
 * accepted the chunk or has failed.
 */
function roomInFile(file: WriteStream, chunk: Buffer): Promise<void> | undefined {
  if (file.destroyed || file.write(chunk)) return undefined;
  return new Promise((resolve) => {
    const resume = () => {
      file.off('drain', resume);
      file.off('close', resume);
      resolve();
    };
    file.on('drain', resume);
    file.on('close', resume);
  });
}

/** Resolves to true when `last` is longer ago than the grace period. */
async function silence(last: () => number): Promise<true> {
  for (let from = performance.now(); ; ) {
    const wait = Math.max(from, last()) + PIPES_GRACE_MS - performance.now();
    if (wait <= 0) return true;
    await new Promise((resolve) => setTimeout(resolve, wait).unref());
    // an agent that got no processor meanwhile first reads what is there
    await immediate();
    from = Math.min(from, performance.now());
  }
}
