import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type Exit, errorText } from '@ropewalk/kit';
import type { PseudoTtyInfo, ServerChannel, Session, SFTPWrapper } from 'ssh2';
import { expandPath } from '../environment.ts';
import { runningPrograms } from '../running-programs.ts';
import { fairWindow, widen } from './channel.ts';
import type { SshConnection } from './connection.ts';
import { type RunningProcess, startPiped } from './process.ts';
import { serveSftp } from './sftp.ts';
import { startTerminal } from './terminal.ts';
import { findXauth, forwardX11 } from './x11.ts';

/** The size limit of a client's variables. A process cannot start with much more. */
const MAX_ENV_BYTES = 64 * 1024;
const SIGNALS = new Set<string>(
  'ABRT ALRM FPE HUP ILL INT QUIT SEGV TERM USR1 USR2 KILL PIPE'.split(' ').map((name) => `SIG${name}`),
);

const SESSION_TYPE = 'CODER_SSH_SESSION_TYPE';
const MAX_MOTD = 64 * 1024;
/**
 * Programs that transfer files. This discourages transfers but cannot prevent them: a determined user has other means.
 */
const FILE_TRANSFER = /^\s*(?:\S*\/)?(?:nc|netcat|rsync|rz|scp|sftp|sz|sftp-server)(?:\s|$)/;
/** Upstream's exit code. */
const BLOCKED_EXIT = 65;

/** Sends an exit status for an SFTP session. ssh2 has no method for servers to do so. */
function exitSftp(sftp: SFTPWrapper): void {
  const { _protocol, outgoing } = sftp as unknown as {
    _protocol: { exitStatus(id: number, code: number): void };
    outgoing: { id: number; state: string };
  };
  if (outgoing.state === 'open') _protocol.exitStatus(outgoing.id, 0);
  sftp.end();
}

/** Reports a process's exit code or signal to the client. */
function sendExit(channel: ServerChannel, exit: { code: number | null; signal: NodeJS.Signals | null }): void {
  if (exit.signal) channel.exit(exit.signal.replace(/^SIG/, ''), false, '');
  else channel.exit(exit.code ?? 255);
}

/** Serves one session of a client: its environment, optionally a terminal, and one program. */
export function serveSession(session: Session, connection: SshConnection): void {
  const { workspace, log, signal: gone, activity } = connection;
  const requested: Record<string, string> = {};
  let envBytes = 0;
  let pty: PseudoTtyInfo | undefined;
  let running: RunningProcess | undefined;
  let agentSocket: Promise<string> | undefined;
  let display: Promise<string | undefined> | undefined;

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
  session.on('auth-agent', (accept) => {
    agentSocket = connection.agentSocket();
    agentSocket.catch(() => {});
    accept?.();
  });
  session.on('x11', (accept, reject, info) => {
    const xauth = findXauth(workspace.environment());
    if (!xauth) return reject?.();
    display = forwardX11(connection, xauth, info).catch((err) => {
      log.warn('could not forward X11', { err: errorText(err) });
      return undefined;
    });
    accept?.();
  });
  session.on('sftp', (accept, reject) => {
    if (workspace.options.blockFileTransfer) return reject?.();
    const end = begin();
    const sftp = accept();
    serveSftp(sftp, workspace.account.home, () => {
      // scp treats a missing exit status as a failure.
      exitSftp(sftp);
      end(0, '');
    });
  });

  // Call accept() before any await: ssh2 rejects it once the client has ended its input.
  session.on('shell', (accept) => run(accept(), undefined));
  session.on('exec', (accept, _reject, { command }) => run(accept(), command));

  /** Starts the activity record. Editors identify themselves in a variable, which programs do not get. */
  function begin() {
    const kind = requested[SESSION_TYPE]?.toLowerCase();
    delete requested[SESSION_TYPE];
    return activity.begin(kind === 'vscode' || kind === 'jetbrains' ? kind : 'ssh', connection.tunnelId);
  }

  function run(channel: ServerChannel, command: string | undefined): void {
    fairWindow(channel);
    widen(channel);
    if (command !== undefined && workspace.options.blockFileTransfer && FILE_TRANSFER.test(command)) {
      channel.stderr.write('File transfer is not allowed in this workspace.\n');
      channel.exit(BLOCKED_EXIT);
      channel.end();
      return;
    }
    const end = begin();
    const hangUp = () => {
      running?.hangUp();
      // A program may go on. Its session does not.
      end(255, 'the client is gone');
    };
    gone.addEventListener('abort', hangUp, { once: true });
    let result: Exit = { code: 127, signal: null };
    start(channel, command)
      .then((exit) => {
        result = exit;
        sendExit(channel, exit);
      })
      .catch((err) => {
        log.warn('could not start a session', { err: errorText(err) });
        channel.stderr.write(`${errorText(err)}\n`);
        channel.exit(127);
      })
      .finally(() => {
        gone.removeEventListener('abort', hangUp);
        running = undefined;
        end(result.code ?? 255, result.signal ?? '');
        channel.stderr.end(() => channel.end());
      });
  }

  async function start(channel: ServerChannel, command: string | undefined): Promise<Exit> {
    const x11 = await display;
    const spec = workspace.session(command, {
      ...requested,
      ...(agentSocket ? { SSH_AUTH_SOCK: await agentSocket } : {}),
      ...(x11 ? { DISPLAY: x11 } : {}),
    });
    if (pty && command === undefined) await showMotd(channel);
    running = pty
      ? await startTerminal(channel, spec, pty)
      : await startPiped(channel, spec, runningPrograms(workspace));
    if (gone.aborted) running.hangUp();
    return running.ended;
  }

  /** Shows the template's message of the day, unless the user has silenced it. */
  async function showMotd(channel: ServerChannel): Promise<void> {
    const { manifest, account } = workspace;
    if (manifest.motdPath === '' || existsSync(join(account.home, '.hushlogin'))) return;
    const path = expandPath(manifest.motdPath, account, workspace.environment());
    try {
      const file = await open(path);
      try {
        const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_MOTD), 0, MAX_MOTD, 0);
        channel.write(buffer.toString('utf8', 0, bytesRead).replace(/\r?\n/g, '\r\n'));
      } finally {
        await file.close();
      }
    } catch (err) {
      log.debug('no message of the day', { err: errorText(err) });
    }
  }
}
