import type { Duplex } from 'node:stream';
import { AppError, errorText, formatDuration } from '@ropewalk/kit';
import type { Activity } from '../activity.ts';
import type { Lifecycle } from '../lifecycle.ts';
import { TerminalInputParser } from '../terminal/input.ts';
import { SharedTerminal } from '../terminal/shared-terminal.ts';
import { spawnTerminal, type TerminalSize } from '../terminal/spawn.ts';
import { beforeTerminal } from '../terminal/startup.ts';
import type { Workspace } from '../workspace.ts';
import { connectionOf } from './connection.ts';
import type { Service } from './service.ts';

/** Limited because each may hold its scrollback and a shell. */
const MAX_TERMINALS = 100;
/** Limited because each may lag behind by some unsent output. */
const MAX_VIEWERS = 32;
/** The kernel accepts no longer argument. */
const MAX_COMMAND = 100 * 1024;
const IDLE_MS = 5 * 60_000;
/**
 * How long a client waits for the manifest just after the agent has connected, in ms: less than the server waits for an
 * answer.
 */
const MANIFEST_MS = 5_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export interface PtyService {
  readonly serve: Service;
  setWorkspace(workspace: Workspace): void;
  /** Ends every terminal. */
  close(): void;
}

interface Request {
  id: string;
  user: string;
  command: string;
  width: number;
  height: number;
  wait: boolean;
}

function checked(request: Readonly<Record<string, unknown>>): Request {
  const { id, user, command = '', width = 80, height = 24, wait } = request;
  if (typeof id !== 'string' || !UUID.test(id)) throw new AppError('invalid', 'The terminal\'s "id" must be a UUID.');
  if (typeof user !== 'string' || user === '')
    throw new AppError('invalid', 'The terminal\'s "user" must not be empty.');
  if (typeof command !== 'string' || command.length > MAX_COMMAND || command.includes('\0')) {
    throw new AppError(
      'invalid',
      `The terminal's "command" must be a text of at most ${MAX_COMMAND} characters without NUL.`,
    );
  }
  const size = { width: Number(width), height: Number(height) };
  return { id: id.toLowerCase(), user, command, ...size, wait: wait === true };
}

/**
 * `{service: 'pty', id, user, command, width, height, wait}`: opens or attaches to the terminal of this id and user.
 * With `wait` a new one opens after the startup scripts that block sign-in have ended. A terminal lives for a while
 * without viewers (5 min). Input is JSON objects (see TerminalInputParser), output is the terminal's bytes. The stream
 * ends when the program does.
 */
export function ptyService(
  activity: Activity,
  lifecycle: Lifecycle,
  { idleMs = IDLE_MS, most = MAX_TERMINALS } = {},
): PtyService {
  /** By user and id, so that knowing another user's id gives no access to their terminal. */
  const terminals = new Map<string, Promise<SharedTerminal>>();
  let workspace: Workspace | undefined;
  const known = Promise.withResolvers<void>();
  let closed = false;

  /** Waits for the manifest, which defines the blocking scripts and the environment of a shell. */
  async function manifestKnown(): Promise<void> {
    if (workspace) return;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, MANIFEST_MS);
    });
    await Promise.race([known.promise, limit]);
    clearTimeout(timer);
    if (!workspace) throw new AppError('unavailable', 'The agent is still starting. Try again in a moment.');
  }

  const blocking = () => workspace?.manifest.scripts.some(({ startBlocksLogin }) => startBlocksLogin) ?? false;

  function checkRoom(key: string): void {
    if (terminals.has(key) || terminals.size < most) return;
    throw new AppError(
      'unavailable',
      `This workspace has reached its limit of ${most} open terminals. Close one, or wait: a terminal without a viewer ends after ${formatDuration(idleMs)}.`,
    );
  }

  /** Requests that come at the same time share one terminal. */
  function openOnce(key: string, request: Request, size: TerminalSize): Promise<SharedTerminal> {
    let terminal = terminals.get(key);
    if (!terminal) {
      terminal = open(key, request, size);
      terminals.set(key, terminal);
      terminal.catch(() => terminals.delete(key));
    }
    return terminal;
  }

  async function open(key: string, { command }: Request, size: TerminalSize): Promise<SharedTerminal> {
    if (!workspace) throw new AppError('unavailable', 'The agent is still starting. Try again in a moment.');
    const spec = workspace.session(command === '' ? undefined : command);
    const terminal = await spawnTerminal(spec, size);
    const shared = new SharedTerminal({ terminal, idleMs, carried: activity.count });
    void shared.ended.then(() => terminals.delete(key));
    if (closed) shared.hangUp();
    return shared;
  }

  return {
    async serve({ request, accept }) {
      if (closed) throw new AppError('unavailable', 'The workspace is shutting down.');
      const wanted = checked(request);
      await manifestKnown();
      const key = `${wanted.user} ${wanted.id}`;
      let stream: Duplex | undefined;
      const parser = new TerminalInputParser();
      const size = { cols: wanted.width, rows: wanted.height };
      const end = activity.begin('reconnecting_pty', connectionOf(request));
      let reason = '';
      try {
        checkRoom(key);
        if (!terminals.has(key)) {
          stream = accept();
          stream.on('error', () => {});
          const asked = await beforeTerminal(stream, parser, lifecycle, wanted.wait && blocking());
          if (!asked) {
            stream.destroy();
            return;
          }
          if (asked.width) size.cols = asked.width;
          if (asked.height) size.rows = asked.height;
          checkRoom(key);
        }
        const shared = await openOnce(key, wanted, size);
        if (shared.viewers >= MAX_VIEWERS) {
          throw new AppError(
            'unavailable',
            `This terminal is open in ${MAX_VIEWERS} windows, which is the limit. Close one and try again.`,
          );
        }
        reason = await shared.attach(stream ?? accept(), parser, size);
      } catch (err) {
        reason = errorText(err);
        if (!stream) throw err;
        // The stream was accepted, so the error can only be reported in it.
        stream.resume();
        stream.end(`\r\n${reason}\r\n`);
      } finally {
        end(0, reason);
      }
    },
    setWorkspace(next) {
      workspace = next;
      known.resolve();
    },
    close() {
      closed = true;
      for (const terminal of terminals.values()) terminal.then((shared) => shared.hangUp()).catch(() => {});
    },
  };
}
