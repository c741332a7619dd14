import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { errorText } from '@ropewalk/kit';
import type { WorkspaceAgentMetadata_Description } from '@ropewalk/wire/proto/agent';
import { scriptCommand } from './command.ts';
import { SCRIPT_DATA } from './data-dir.ts';
import { spawnPiped } from './piped-child.ts';
import type { Service } from './services/service.ts';
import { trySignalGroup } from './signals.ts';
import type { AgentClient, WireDuration } from './wire-types.ts';
import type { Workspace } from './workspace.ts';

const TICK_MS = 1_000;
const DEFAULT_TIMEOUT_S = 3;
const MAX_OUTPUT = 10 * 1024;
const MAX_ERROR = 2_048;

interface Collected {
  value: string;
  error: string;
  collectedAt: Date;
}

/** Reads a duration as seconds. The server puts counts of seconds into the nanoseconds field. */
function seconds(duration: WireDuration | undefined): number {
  return duration ? Number(duration.seconds) * 1e9 + duration.nanos : 0;
}

async function collect(workspace: Workspace, item: WorkspaceAgentMetadata_Description): Promise<Collected> {
  const timeoutS = seconds(item.timeout) || seconds(item.interval) || DEFAULT_TIMEOUT_S;
  const collectedAt = new Date();
  const env = workspace.environment();
  const directory = join(workspace.options.scriptDataDir ?? tmpdir(), SCRIPT_DATA, 'metadata');
  try {
    const command = await scriptCommand(item.script, workspace.account.shell, directory);
    try {
      const cwd = workspace.directory(env);
      const { child, stdout, stderr } = await spawnPiped(command.file, command.args, { cwd, env, stdin: false });
      const read = (stream: NodeJS.ReadableStream) => {
        let text = '';
        stream.on('data', (chunk: Buffer) => {
          if (text.length < MAX_OUTPUT) text += chunk.toString('utf8');
        });
        return () => text.trim().slice(0, MAX_OUTPUT).replaceAll('\0', '');
      };
      // Warnings on stderr are not part of the value. They explain a failure.
      const [output, complaint] = [read(stdout), read(stderr)];
      const closed = Promise.all([stdout, stderr].map((stream) => new Promise((done) => stream.once('close', done))));
      let late = false;
      const timer = setTimeout(() => {
        late = true;
        trySignalGroup(child.pid, 'SIGKILL');
      }, timeoutS * 1_000);
      const exit = await child.exited;
      // Processes that the script left in the background would pile up at each interval.
      trySignalGroup(child.pid, 'SIGKILL');
      await closed;
      clearTimeout(timer);
      if (late) return { value: '', error: `timed out after ${timeoutS} s`, collectedAt };
      if (exit.code === 0) return { value: output(), error: '', collectedAt };
      const why = complaint() || output();
      const error = `the script ended with ${exit.signal ?? exit.code}: ${why}`.slice(0, MAX_ERROR);
      return { value: '', error, collectedAt };
    } finally {
      await command.cleanup();
    }
  } catch (err) {
    return { value: '', error: errorText(err).slice(0, MAX_ERROR), collectedAt };
  }
}

export interface MetadataReporter {
  /** Runs the template's scripts at their intervals and reports changed values, until the signal aborts. */
  report(workspace: Workspace, client: AgentClient, signal: AbortSignal): Promise<void>;
  /** `{service: 'watch'}`: somebody watches the values for as long as the stream is open. */
  watch: Service;
  /** Sets whether the server announces watchers. Upstream does not, so the agent always reports to it immediately. */
  setQuiet(quiet: boolean): void;
}

/** How often values that the server has received are reported again while nobody watches, in ms. */
const UNWATCHED_MS = 60_000;

export function createMetadataReporter(unwatchedMs = UNWATCHED_MS): MetadataReporter {
  // Over all connections: a script that outlasts one must not run twice in the next.
  const running = new Set<string>();
  const changed = new Map<string, Collected>();
  let watchers = 0;
  let quiet = false;

  async function report(workspace: Workspace, client: AgentClient, signal: AbortSignal): Promise<void> {
    const { metadata } = workspace.manifest;
    if (metadata.length === 0) return;
    const state = metadata.map((item) => ({ item, due: 0 }));
    const reported = new Set<string>();
    let lastReport = 0;
    let reporting = false;
    let failure: unknown;
    const tick = () => {
      const now = performance.now();
      for (const one of state) {
        const { key } = one.item;
        if (running.has(key) || now < one.due) continue;
        const interval = seconds(one.item.interval);
        // Interval 0 means once.
        one.due = interval > 0 ? now + interval * 1_000 - TICK_MS / 10 : Number.POSITIVE_INFINITY;
        running.add(key);
        void collect(workspace, one.item).then((collected) => {
          running.delete(key);
          changed.set(key, collected);
        });
      }
      if (reporting || changed.size === 0 || now - lastReport < TICK_MS) return;
      const news = [...changed.keys()].some((key) => !reported.has(key));
      if (quiet && watchers === 0 && !news && now - lastReport < unwatchedMs) return;
      lastReport = now;
      const taken = [...changed];
      changed.clear();
      reporting = true;
      client
        .batchUpdateMetadata(
          { metadata: taken.map(([key, collected]) => ({ key, result: toResult(collected) })) },
          { signal },
        )
        .then(() => {
          for (const [key] of taken) reported.add(key);
        })
        .catch((err) => {
          failure = err;
          for (const [key, collected] of taken) if (!changed.has(key)) changed.set(key, collected);
        })
        .finally(() => {
          reporting = false;
        });
    };
    tick();
    await everyTick(signal, TICK_MS / 4, () => {
      if (failure) throw failure;
      tick();
    });
  }

  return {
    report,
    async watch({ accept }) {
      const stream = accept();
      watchers++;
      stream.resume();
      stream.on('error', () => {});
      stream.on('end', () => stream.end());
      stream.once('close', () => watchers--);
    },
    setQuiet(on) {
      quiet = on;
    },
  };
}

function toResult({ value, error, collectedAt }: Collected) {
  const age = BigInt(Math.max(0, Math.round((Date.now() - collectedAt.getTime()) / 1_000)));
  return { value, error, collectedAt: timestampFromDate(collectedAt), age };
}

/** Calls `call` until the signal aborts. Rejects with the signal's reason or with the error of `call`. */
export function everyTick(signal: AbortSignal, ms: number, call: () => void): Promise<never> {
  return new Promise((_, reject) => {
    const end = (reason: unknown) => {
      clearInterval(timer);
      signal.removeEventListener('abort', aborted);
      reject(reason);
    };
    const aborted = () => end(signal.reason);
    const timer = setInterval(() => {
      try {
        call();
      } catch (err) {
        end(err);
      }
    }, ms);
    signal.addEventListener('abort', aborted, { once: true });
    if (signal.aborted) aborted();
  });
}
