import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import type { Io } from '../../framework/io.ts';
import { note } from '../../framework/io.ts';
import { reachAgent } from '../../lib/running.ts';
import { reportUsage } from '../../lib/usage.ts';
import { splitTarget } from '../../lib/workspace.ts';

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

const flags = {
  container: {
    type: 'string',
    short: 'c',
    description: 'Container to open the terminal in: its name or ID.',
  },
  'container-user': {
    type: 'string',
    short: 'u',
    description: "User of the terminal in the container. Requires --container. Default: the container's own user.",
  },
  reconnect: {
    type: 'string',
    short: 'r',
    description: 'ID of the terminal, a UUID. A terminal with this ID continues. Default: a new terminal.',
  },
} as const;

export default command(
  {
    args: { workspace: {}, command: { rest: true, optional: true, raw: true } },
    flags,
    help:
      'Opens a terminal as the dashboard does. It stays open when the connection ends, until its program ends. ' +
      'Use coder ssh instead to get the exit code of a command.',
    examples: [{ does: 'Open a terminal', run: 'coder exp rpty dev' }],
  },
  async (ctx, { args, flags: given }) => {
    if (given['container-user'] && !given.container)
      throw new AppError('invalid', '--container-user requires --container.');
    const id = given.reconnect || randomUUID();
    if (!UUID.test(id)) throw new AppError('invalid', `Invalid --reconnect ${JSON.stringify(id)}: use a UUID.`);
    const client = await ctx.client();
    const { workspace, agent } = await reachAgent(ctx, client, splitTarget(args.workspace), { autostart: true });
    const query = new URLSearchParams({
      reconnect: id,
      ...(args.command.length > 0 ? { command: args.command.join(' ') } : {}),
      ...(given.container ? { container: given.container } : {}),
      ...(given['container-user'] ? { container_user: given['container-user'] } : {}),
      width: String(ctx.io.stdout.columns ?? 80),
      height: String(ctx.io.stdout.rows ?? 24),
    });
    const { dialStream } = await import('@ropewalk/client/dial');
    const stream = await dialStream(client, `/workspaceagents/${agent.id}/pty?${query}`, ctx.signal);
    const stopReports = reportUsage(client, workspace.id, { agent_id: agent.id, app_name: 'reconnecting-pty' });
    try {
      await connectTerminal(ctx.io, stream, ctx.signal);
    } catch (cause) {
      note(ctx.io, `\rThe terminal is still open. Continue with: coder exp rpty ${args.workspace} --reconnect ${id}\r`);
      throw new AppError('unavailable', 'The connection to the terminal was lost.', { cause });
    } finally {
      stopReports();
    }
  },
);

/** Connects the input and the output until the program ends, or the signal aborts. @throws if the connection is lost */
async function connectTerminal(io: Io, stream: Duplex, signal: AbortSignal): Promise<void> {
  const send = (message: { data: string } | { width: number; height: number }) => {
    if (stream.writable && !stream.write(JSON.stringify(message))) io.stdin.pause();
  };
  const characters = new StringDecoder('utf8');
  const onInput = (chunk: Buffer) => send({ data: characters.write(chunk) });
  const onResize = () => send({ width: io.stdout.columns ?? 80, height: io.stdout.rows ?? 24 });
  const leave = () => stream.end();
  const isRaw = io.stdin.isTTY === true;
  if (isRaw) io.stdin.setRawMode?.(true);
  stream.on('drain', () => io.stdin.resume());
  io.stdin.on('data', onInput);
  io.stdout.on('resize', onResize);
  signal.addEventListener('abort', leave, { once: true });
  try {
    stream.pipe(io.stdout, { end: false });
    await once(stream, 'close');
  } finally {
    signal.removeEventListener('abort', leave);
    io.stdout.off('resize', onResize);
    io.stdin.off('data', onInput);
    io.stdin.pause();
    if (isRaw) io.stdin.setRawMode?.(false);
  }
}
