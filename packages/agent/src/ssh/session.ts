import { errorText } from '@platform/kit';
import type { PseudoTtyInfo, ServerChannel, Session } from 'ssh2';
import { fairWindow } from './channel.ts';
import { type RunningProcess, startPiped } from './process.ts';
import type { SshConnection } from './server.ts';
import { startTerminal } from './terminal.ts';

/** What a client may set, in all; a process can't be started with much more. */
const MAX_ENV_BYTES = 64 * 1024;
const SIGNALS = new Set<string>(
  'ABRT ALRM FPE HUP ILL INT QUIT SEGV TERM USR1 USR2 KILL PIPE'.split(' ').map((name) => `SIG${name}`),
);

/** How a process is shown on the wire when a signal ended it. */
function tellExit(channel: ServerChannel, exit: { code: number | null; signal: NodeJS.Signals | null }): void {
  if (exit.signal) channel.exit(exit.signal.replace(/^SIG/, ''), false, '');
  else channel.exit(exit.code ?? 255);
}

/** One session of a client: its environment, perhaps a terminal, and one program. */
export function serveSession(session: Session, connection: SshConnection): void {
  const { workspace, log, signal: gone } = connection;
  const requested: Record<string, string> = {};
  let envBytes = 0;
  let pty: PseudoTtyInfo | undefined;
  let running: RunningProcess | undefined;

  session.on('env', (accept, reject, { key, val }) => {
    envBytes += key.length + val.length;
    if (!/^[A-Za-z_]\w*$/.test(key) || val.includes('\0') || envBytes > MAX_ENV_BYTES) return reject?.();
    requested[key] = val;
    accept?.();
  });
  session.on('pty', (accept, _reject, info) => {
    pty = info;
    accept?.();
  });
  session.on('window-change', (accept, _reject, info) => {
    if (pty) Object.assign(pty, info);
    running?.resize(info.cols, info.rows);
    accept?.();
  });
  session.on('signal', (accept, reject, { name }) => {
    const signal = `SIG${name}`;
    if (!running || !SIGNALS.has(signal)) return reject?.();
    running.signal(signal as NodeJS.Signals);
    accept?.();
  });
  session.on('close', () => running?.hangUp());

  // accept() must be called before anything is awaited: ssh2 refuses it once the client has ended its input.
  session.on('shell', (accept) => run(accept(), undefined));
  session.on('exec', (accept, _reject, { command }) => run(accept(), command));

  function run(channel: ServerChannel, command: string | undefined): void {
    fairWindow(channel);
    const hangUp = () => running?.hangUp();
    gone.addEventListener('abort', hangUp, { once: true });
    start(channel, command)
      .catch((err) => {
        log.warn('a session could not be started', { err: errorText(err) });
        channel.stderr.write(`${errorText(err)}\n`);
        channel.exit(127);
      })
      .finally(() => {
        gone.removeEventListener('abort', hangUp);
        running = undefined;
        channel.stderr.end(() => channel.end());
      });
  }

  async function start(channel: ServerChannel, command: string | undefined): Promise<void> {
    const { shell } = workspace.account;
    const env = workspace.environment(requested);
    const cwd = workspace.directory(env);
    const args = command === undefined ? ['-l'] : ['-c', command];
    const spec = { file: shell, args, env, cwd };
    running = pty ? await startTerminal(channel, spec, pty) : await startPiped(channel, spec);
    if (gone.aborted) running.hangUp();
    tellExit(channel, await running.ended);
  }
}
