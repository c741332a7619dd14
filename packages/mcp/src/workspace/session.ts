import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit/errors';
import type { Client as SshClient } from 'ssh2';
import { type AgentStream, type ToolContext, text } from '../tool.ts';
import { readyAgent } from './find.ts';

export const workspaceArgument = text(
  'The workspace as [owner/]workspace[.agent]. The default owner is the caller. A stopped workspace starts.',
);

const HANDSHAKE_MS = 20_000;

/** An error of a connection that was lost, or of a call that was canceled. */
function ended(signal: AbortSignal, err?: Error): AppError {
  if (signal.aborted) return new AppError('canceled', 'The call was canceled or took too long.', { cause: err });
  return new AppError('unavailable', `The connection to the workspace was lost${err ? `: ${err.message}` : '.'}`, {
    cause: err,
  });
}

/** Runs `use` with an SSH connection to a ready agent, and closes it. @throws AppError, ApiError */
export async function withSsh<T>(
  ctx: ToolContext,
  workspace: string,
  use: (client: SshClient, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const agent = await readyAgent(ctx, workspace);
  const { signal } = ctx;
  const opened = await ctx.openSsh(agent.id, signal);
  const { default: Client } = await import('ssh2/lib/client.js');
  const client: SshClient = new Client();
  // ssh2 may report several errors, also after the handshake
  client.on('error', () => {});
  const gone = new AbortController();
  client.once('close', () => gone.abort(ended(signal)));
  const stop = () => {
    client.destroy();
    opened.stream.destroy();
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (signal.aborted) throw ended(signal);
    await handshake(client, opened, signal);
    return await Promise.race([
      use(client, gone.signal),
      new Promise<never>((_, reject) => {
        gone.signal.addEventListener('abort', () => reject(gone.signal.reason as Error), { once: true });
        if (gone.signal.aborted) reject(gone.signal.reason as Error);
      }),
    ]);
  } finally {
    signal.removeEventListener('abort', stop);
    client.end();
    destroySoon(opened.stream);
  }
}

/** Destroys a stream once it has sent its last bytes. */
function destroySoon(stream: Duplex): void {
  setTimeout(() => stream.destroy(), 1_000).unref();
}

function handshake(client: SshClient, { stream, hostKey }: AgentStream, signal: AbortSignal): Promise<void> {
  if (hostKey === '') {
    stream.destroy();
    throw new AppError(
      'unavailable',
      "The server has no SSH host key of the workspace's agent. Restart the workspace.",
    );
  }
  const plain = (key: string) => key.replace(/=+$/, '');
  return new Promise((resolve, reject) => {
    client.once('ready', resolve);
    client.once('error', (err) => reject(ended(signal, err)));
    client.once('close', () => reject(ended(signal)));
    client.connect({
      sock: stream as never,
      username: 'coder',
      readyTimeout: HANDSHAKE_MS,
      authHandler: ['none'],
      hostVerifier: (key: Buffer) => hostKey === undefined || plain(key.toString('base64')) === plain(hostKey),
      algorithms: { cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes128-ctr'], compress: ['none'] },
    });
  });
}
