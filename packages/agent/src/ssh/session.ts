import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type Exit, errorText } from '@ropewalk/kit';
import type { PseudoTtyInfo, ServerChannel, Session, SFTPWrapper, X11Info } from 'ssh2';
import type { Activity } from '../activity.ts';
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

/** Records the end of a session with its exit code. */
type EndSession = ReturnType<Activity['begin']>;

/** Sends an exit status for an SFTP session. ssh2 has no method for servers to do so. */
function exitSftp(sftp: SFTPWrapper): void {
  const { _protocol, outgoing } = sftp as unknown as {
    _protocol: { exitStatus(id: number, code: number): void };
    outgoing: { id: number; state: string };
  };
  if (outgoing.state === 'open') _protocol.exitStatus(outgoing.id, 0);
  sftp.end();
}

/**
 * Reports a process's exit code or signal to the client. After a signal, upstream's agent sends only the status 255, and its
 * load test expects that. Clients that keep the first report get the signal.
 */
function sendExit(channel: ServerChannel, exit: { code: number | null; signal: NodeJS.Signals | null }): void {
  if (exit.signal) channel.exit(exit.signal.replace(/^SIG/, ''), false, '');
  channel.exit(exit.code ?? 255);
}

/** Serves one session of a client: its environment, optionally a terminal, and one program. */
export function serveSession(session: Session, connection: SshConnection): void {
  new SshSession(connection).serve(session);
}

class SshSession {
  readonly #connection: SshConnection;
  /** The variables that the client has set. */
  readonly #requested: Record<string, string> = {};
  #envBytes = 0;
  #pty: PseudoTtyInfo | undefined;
  #agentSocket: Promise<string> | undefined;
  #display: Promise<string | undefined> | undefined;
  #running: RunningProcess | undefined;

  constructor(connection: SshConnection) {
    this.#connection = connection;
  }

  serve(session: Session): void {
    session.on('env', (accept, reject, { key, val }) => answer(accept, reject, this.#setVariable(key, val)));
    session.on('pty', (accept, _reject, info) => {
      this.#pty = info;
      accept?.();
    });
    session.on('window-change', (accept, _reject, info) => {
      if (this.#pty) Object.assign(this.#pty, info);
      this.#running?.resize(info.cols, info.rows);
      accept?.();
    });
    session.on('auth-agent', (accept) => {
      this.#agentSocket = this.#connection.agentSocket();
      this.#agentSocket.catch(() => {});
      accept?.();
    });
    session.on('x11', (accept, reject, info) => answer(accept, reject, this.#forwardX11(info)));
    session.on('signal', (accept, reject, { name }) => answer(accept, reject, this.#signal(name)));
    session.on('close', () => this.#running?.hangUp());
    session.on('sftp', (accept, reject) => {
      if (this.#connection.workspace.options.blockFileTransfer) return reject?.();
      const end = this.#begin();
      this.#serveSftp(accept(), end);
    });
    // Call accept() before any await: ssh2 rejects it once the client has ended its input.
    session.on('shell', (accept) => this.#run(accept(), undefined));
    session.on('exec', (accept, _reject, { command }) => this.#run(accept(), command));
  }

  /** Returns false for an invalid variable, or too many of them. */
  #setVariable(key: string, value: string): boolean {
    this.#envBytes += key.length + value.length;
    if (!/^[A-Za-z_]\w*$/.test(key) || value.includes('\0') || this.#envBytes > MAX_ENV_BYTES) return false;
    this.#requested[key] = value;
    return true;
  }

  /** Returns false if the workspace has no xauth. */
  #forwardX11(info: X11Info): boolean {
    const { workspace, log } = this.#connection;
    const xauth = findXauth(workspace.environment());
    if (!xauth) return false;
    this.#display = forwardX11(this.#connection, xauth, info).catch((err) => {
      log.warn('could not forward X11', { err: errorText(err) });
      return undefined;
    });
    return true;
  }

  /** Returns false if no program runs, or the signal is unknown. */
  #signal(name: string): boolean {
    const signal = `SIG${name}`;
    if (!this.#running || !SIGNALS.has(signal)) return false;
    this.#running.signal(signal as NodeJS.Signals);
    return true;
  }

  /** Starts the activity record. Editors identify themselves in a variable, which programs do not get. */
  #begin(): EndSession {
    const { activity, tunnelId } = this.#connection;
    const kind = this.#requested[SESSION_TYPE]?.toLowerCase();
    delete this.#requested[SESSION_TYPE];
    return activity.begin(kind === 'vscode' || kind === 'jetbrains' ? kind : 'ssh', tunnelId);
  }

  #serveSftp(sftp: SFTPWrapper, end: EndSession): void {
    serveSftp(sftp, this.#connection.workspace.account.home, () => {
      // scp treats a missing exit status as a failure.
      exitSftp(sftp);
      end(0, '');
    });
  }

  /** Runs a command, or a shell without one, and reports its end to the client. */
  #run(channel: ServerChannel, command: string | undefined): void {
    const { workspace, log, signal: gone } = this.#connection;
    fairWindow(channel);
    widen(channel);
    if (command !== undefined && workspace.options.blockFileTransfer && FILE_TRANSFER.test(command)) {
      channel.stderr.write('File transfer is not allowed in this workspace.\n');
      channel.exit(BLOCKED_EXIT);
      channel.end();
      return;
    }
    const end = this.#begin();
    const hangUp = () => {
      this.#running?.hangUp();
      // A program may go on. Its session does not.
      end(255, 'the client is gone');
    };
    gone.addEventListener('abort', hangUp, { once: true });
    let result: Exit = { code: 127, signal: null };
    this.#start(channel, command)
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
        this.#running = undefined;
        end(result.code ?? 255, result.signal ?? '');
        channel.stderr.end(() => channel.end());
      });
  }

  /** Starts the program and waits for its end. */
  async #start(channel: ServerChannel, command: string | undefined): Promise<Exit> {
    const { workspace, signal: gone } = this.#connection;
    const x11 = await this.#display;
    const spec = workspace.session(command, {
      ...this.#requested,
      ...(this.#agentSocket ? { SSH_AUTH_SOCK: await this.#agentSocket } : {}),
      ...(x11 ? { DISPLAY: x11 } : {}),
    });
    if (this.#pty && command === undefined) await this.#showMotd(channel);
    const running = this.#pty
      ? await startTerminal(channel, spec, this.#pty)
      : await startPiped(channel, spec, runningPrograms(workspace));
    this.#running = running;
    if (gone.aborted) running.hangUp();
    return running.ended;
  }

  /** Shows the template's message of the day, unless the user has silenced it. */
  async #showMotd(channel: ServerChannel): Promise<void> {
    const { workspace, log } = this.#connection;
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

/** Answers a request that may fail. A client need not ask for an answer. */
function answer(accept: (() => void) | undefined, reject: (() => void) | undefined, done: boolean): void {
  if (done) accept?.();
  else reject?.();
}
