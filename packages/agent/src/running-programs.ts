import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureDirectorySync } from '@ropewalk/kit';
import { replaceFile } from '@ropewalk/kit/files';
import { isAlive, isSame, type ProcessRef, processRef } from '@ropewalk/kit/process-ref';
import { uuidText } from '@ropewalk/wire/uuid';
import { SCRIPT_DATA } from './data-dir.ts';
import { stopGroup } from './signals.ts';
import type { Workspace } from './workspace.ts';

/** The time between SIGTERM and SIGKILL, in ms. */
const GRACE_MS = 2_000;
const POLL_MS = 50;

/** What a file has. */
interface Stored {
  agent: ProcessRef;
  programs: ProcessRef[];
}

/**
 * The programs that an agent runs, in a file. A killed agent cannot end them, and many of them notice nothing: the next
 * agent does it, before it runs the scripts again.
 */
export interface RunningPrograms {
  /** Adds the leader of a process group until it has ended. */
  add(child: { pid: number; exited: Promise<unknown> }): void;
  /** Ends the programs of killed agents of this workspace agent. Returns how many it ended. */
  endLeft(): Promise<number>;
}

/** By file: the workspace is another object after each new connection. */
const known = new Map<string, RunningPrograms>();

export function runningPrograms({ options, manifest }: Workspace): RunningPrograms {
  const stem = join(options.scriptDataDir ?? tmpdir(), SCRIPT_DATA, `running-${uuidText(manifest.agentId)}`);
  const found = known.get(stem) ?? create(stem);
  known.set(stem, found);
  return found;
}

function create(stem: string): RunningPrograms {
  const me = processRef(process.pid);
  const path = `${stem}-${process.pid}`;
  const programs: ProcessRef[] = [];
  const store = (agent: ProcessRef) => {
    try {
      if (programs.length === 0) return rmSync(path, { force: true });
      ensureDirectorySync(dirname(path), { mode: 0o700 });
      replaceFile(path, JSON.stringify({ agent, programs } satisfies Stored));
    } catch {
      // for example, the disk is full: the programs run nevertheless
    }
  };
  return {
    add({ pid, exited }) {
      const ref = processRef(pid);
      if (!ref || !me) return;
      programs.push(ref);
      store(me);
      void exited.then(() => {
        programs.splice(programs.indexOf(ref), 1);
        store(me);
      });
    },
    async endLeft() {
      let count = 0;
      for (const file of filesOf(stem)) {
        const stored = read(file);
        if (stored && (!me || isSame(stored.agent, me) || isAlive(stored.agent))) continue;
        const left = (stored?.programs ?? []).filter(isAlive);
        await Promise.all(left.map((ref) => stopGroup({ pid: ref.pid, exited: gone(ref) }, GRACE_MS)));
        count += left.length;
        rmSync(file, { force: true });
      }
      return count;
    },
  };
}

function filesOf(stem: string): string[] {
  try {
    const names = readdirSync(dirname(stem)).filter((name) => name.startsWith(`${basename(stem)}-`));
    return names.map((name) => join(dirname(stem), name));
  } catch {
    return []; // the folder does not exist yet
  }
}

/** Undefined if the file is damaged. */
function read(path: string): Stored | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Stored;
  } catch {
    return undefined;
  }
}

async function gone(ref: ProcessRef): Promise<void> {
  while (isAlive(ref)) await delay(POLL_MS);
}
