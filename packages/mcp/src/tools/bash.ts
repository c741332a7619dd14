import { constants } from 'node:os';
import { AppError } from '@ropewalk/kit/errors';
import type { Client, ClientChannel } from 'ssh2';
import { Type } from 'typebox';
import { optional, text, tool } from '../tool.ts';
import { withSsh, workspaceArgument } from '../workspace/session.ts';

const DEFAULT_MS = 60_000;
export const MAX_COMMAND_MS = 300_000;
/** The size of an output, in bytes. The middle of a longer one is left out. */
const MAX_OUTPUT = 256 * 1024;
const MAX_COMMAND = 128 * 1024;
/** The exit code of a command that takes too long, as that of timeout(1). */
const TIMED_OUT = 124;

const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;

/**
 * A script that starts a command which outlives its session, and shows what it has written when it ends or the time is
 * over. Its output goes to a file, because a pipe would end with the session.
 */
function inBackground(command: string, ms: number): string {
  const seconds = Math.max(1, Math.ceil(ms / 1_000));
  return [
    `log=$(mktemp "\${TMPDIR:-/tmp}/coder-mcp.XXXXXX") || exit 1`,
    'apart=$(command -v setsid || true)',
    `$apart nohup "\${SHELL:-/bin/sh}" -c ${quote(command)} >"$log" 2>&1 </dev/null &`,
    'pid=$!',
    `end=$(( $(date +%s) + ${seconds} ))`,
    'while kill -0 "$pid" 2>/dev/null && [ "$(date +%s)" -lt "$end" ]; do sleep 0.2 2>/dev/null || sleep 1; done',
    'if kill -0 "$pid" 2>/dev/null; then',
    `  cat "$log"; echo; echo "[The command goes on in the background as process $pid. It writes to $log.]"; exit ${TIMED_OUT}`,
    'fi',
    'wait "$pid"; code=$?; cat "$log"; rm -f "$log"; exit "$code"',
  ].join('\n');
}

/** Keeps the beginning and the end of an output. */
export class KeptOutput {
  #head = Buffer.alloc(0);
  #tail = Buffer.alloc(0);
  #dropped = 0;
  readonly #half: number;

  constructor(max = MAX_OUTPUT) {
    this.#half = Math.floor(max / 2);
  }

  add(part: Buffer): void {
    const room = this.#half - this.#head.length;
    if (room > 0) this.#head = Buffer.concat([this.#head, part.subarray(0, room)]);
    const rest = part.subarray(Math.max(0, room));
    if (rest.length === 0) return;
    const tail = Buffer.concat([this.#tail, rest]);
    const over = Math.max(0, tail.length - this.#half);
    this.#dropped += over;
    this.#tail = tail.subarray(over);
  }

  text(): string {
    if (this.#dropped === 0) return Buffer.concat([this.#head, this.#tail]).toString('utf8').trim();
    const note = `\n[${this.#dropped} bytes are left out here.]\n`;
    return `${this.#head.toString('utf8')}${note}${this.#tail.toString('utf8')}`.trim();
  }
}

interface Outcome {
  output: string;
  exit_code: number;
}

/** Runs a command and returns its output. Ends it after `ms`. */
function runCommand(client: Client, command: string, ms: number, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    client.exec(command, (err, channel: ClientChannel) => {
      if (err) return reject(new AppError('unavailable', `Could not run the command: ${err.message}`));
      const output = new KeptOutput();
      let code: number | undefined;
      const timer = setTimeout(() => {
        channel.signal('KILL');
        channel.close();
        channel.destroy();
        const note = `[The command was ended after ${ms / 1_000} s.]`;
        resolve({ output: `${output.text()}\n${note}`.trim(), exit_code: TIMED_OUT });
      }, ms);
      signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
      channel.on('data', (part: Buffer) => output.add(part));
      channel.stderr.on('data', (part: Buffer) => output.add(part));
      channel.once('exit', (status: number | null, name?: string) => {
        const signals: Partial<Record<string, number>> = constants.signals;
        code = status ?? 128 + (signals[`SIG${name?.replace(/^SIG/, '')}`] ?? 0);
      });
      channel.once('close', () => {
        clearTimeout(timer);
        resolve({ output: output.text(), exit_code: code ?? 1 });
      });
    });
  });
}

export const workspaceBash = tool({
  name: 'coder_workspace_bash',
  description:
    'Run a shell command in a workspace, and get its output, which includes its errors, and its exit code. A command ' +
    'that takes longer than timeout_ms is ended with exit code 124. With background, it goes on instead: use that for ' +
    'servers. Read and change files with the other tools of the workspace.',
  args: {
    workspace: workspaceArgument,
    command: text('The command for the shell of the workspace.'),
    timeout_ms: optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_COMMAND_MS,
        default: DEFAULT_MS,
        description: `How long to wait, in milliseconds. Default: ${DEFAULT_MS}. Maximum: ${MAX_COMMAND_MS}.`,
      }),
    ),
    background: optional(Type.Boolean({ description: 'Whether the command goes on when the time is over.' })),
  },
  effect: 'destroy',
  run(ctx, { workspace, command, timeout_ms: ms = DEFAULT_MS, background }) {
    if (command.trim() === '') throw new AppError('invalid', 'command is empty.');
    if (Buffer.byteLength(command) > MAX_COMMAND)
      throw new AppError('invalid', `command is longer than ${MAX_COMMAND} bytes. Write it to a file and run that.`);
    return withSsh(ctx, workspace, (client, signal) => {
      const script = background ? `/bin/sh -c ${quote(inBackground(command, ms))}` : command;
      // the script of a background command ends by itself
      return runCommand(client, script, background ? ms + 10_000 : ms, signal);
    });
  },
});
