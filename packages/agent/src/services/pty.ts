import type { Duplex } from 'node:stream';
import { AppError, errorText, formatDuration } from '@platform/kit';
import type { Activity } from '../activity.ts';
import type { Lifecycle } from '../lifecycle.ts';
import { TerminalInputParser } from '../terminal/input.ts';
import { SharedTerminal } from '../terminal/shared-terminal.ts';
import { spawnTerminal, type TerminalSize } from '../terminal/spawn.ts';
import { beforeTerminal } from '../terminal/startup.ts';
import type { Workspace } from '../workspace.ts';
import type { Service } from './service.ts';

/** Each may hold its scrollback and a shell. */
const MOST_TERMINALS = 100;
/** Each may be behind by what it was not sent yet. */
const MOST_VIEWERS = 32;
/** The kernel takes no longer argument. */
const MAX_COMMAND = 100 * 1024;
const IDLE_MS = 5 * 60_000;
/** Who comes just after the agent has connected waits so long for its manifest: less than the server waits for an answer. */
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
  if (typeof id !== 'string' || !UUID.test(id)) throw new AppError('invalid', 'The id of a terminal must be a UUID.');
  if (typeof user !== 'string' || user === '') throw new AppError('invalid', 'A terminal needs a user.');
  if (typeof command !== 'string' || command.length > MAX_COMMAND || command.includes('\0')) {
    throw new AppError('invalid', 'The command of the terminal is not usable.');
  }
  const size = { width: Number(width), height: Number(height) };
  return { id: id.toLowerCase(), user, command, ...size, wait: wait === true };
}

/**
 * `{service: 'pty', id, user, command, width, height, wait}`: the terminal of this id and person, a new one where there is
 * none; with `wait` that one opens when startup scripts that block log-ins have ended. It lives on for a while without viewers (5 min). Input is JSON objects (see TerminalInputParser), output the
 * terminal's bytes; the stream ends when the program does.
 */
export function ptyService(
  activity: Activity,
  lifecycle: Lifecycle,
  { idleMs = IDLE_MS, most = MOST_TERMINALS } = {},
): PtyService {
  /** By person and id: whoever learns another's id attaches to nothing of his. */
  const terminals = new Map<string, Promise<SharedTerminal>>();
  let workspace: Workspace | undefined;
  const known = Promise.withResolvers<void>();
  let closed = false;

  /** Before it nobody knows which scripts block, and what a shell's environment is. */
  async function manifestKnown(): Promise<void> {
    if (workspace) return;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, MANIFEST_MS);
    });
    await Promise.race([known.promise, limit]);
    clearTimeout(timer);
    if (!workspace) throw new AppError('unavailable', 'The agent is still starting.');
  }

  const blocking = () => workspace?.manifest.scripts.some(({ startBlocksLogin }) => startBlocksLogin) ?? false;

  function checkRoom(key: string): void {
    if (terminals.has(key) || terminals.size < most) return;
    throw new AppError(
      'unavailable',
      `This workspace has ${most} open terminals, which is the limit. Close one, or wait: a terminal without a viewer ends after ${formatDuration(idleMs)}.`,
    );
  }

  /** Two who come at the same time get the same. */
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
    if (!workspace) throw new AppError('unavailable', 'The agent is still starting.');
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
      const end = activity.begin('reconnecting_pty');
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
        if (shared.viewers >= MOST_VIEWERS) {
          throw new AppError('unavailable', `${MOST_VIEWERS} windows show this terminal already: close some.`);
        }
        reason = await shared.attach(stream ?? accept(), parser, size);
      } catch (err) {
        reason = errorText(err);
        if (!stream) throw err;
        // it was accepted: what is wrong can be said there only
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
