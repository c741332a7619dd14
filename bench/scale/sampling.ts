// What the processes of a run use: memory as PSS, processor time, and bytes. A window is the time between two calls.
import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { processesBelow, pssMegabytes, type RunningProcess } from '../measure.ts';

/**
 * `daemons`: the server's built-in daemons with the Terraform that they run. `generator`: everything else below this process,
 * which plays people, agents and daemons.
 */
export type Group = 'server' | 'postgres' | 'daemons' | 'generator';
export const GROUPS: readonly Group[] = ['server', 'postgres', 'daemons', 'generator'];

export interface GroupUse {
  /** The average number of processors, and in the busiest interval. */
  cores: number;
  peakCores: number;
  /** At the end of the window, and at the highest, in MB. */
  megabytes: number;
  peakMegabytes: number;
}

export interface WindowUse {
  seconds: number;
  groups: Record<Group, GroupUse>;
  /** The average processor of the server's main thread, which runs its JavaScript. */
  mainThread: number;
  /** The average processor of the busiest process of the generator. */
  busiestGenerator: number;
  /** All processors of the machine, and the part that this run does not explain. */
  machine: number;
  others: number;
  load: number;
  /** What the server has read and written, in MB: people, agents, daemons and the database. */
  readMegabytes: number;
  writtenMegabytes: number;
}

const EVERY_MS = 5_000;
const TICK_MS = 10;

interface Moment {
  at: number;
  /** Processor time since the start, in ms. */
  groups: Record<Group, number>;
  mainThread: number;
  generators: Map<number, number>;
  machine: number;
  read: number;
  written: number;
}

/** The processor time in a line of /proc/…/stat, in ms. */
function ticksOf(path: string): number {
  const text = readFileSync(path, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The time that all processors were busy, in ms. */
function machineBusy(): number {
  const fields = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.trim().split(/\s+/).slice(1).map(Number);
  // user, nice, system, idle, iowait, irq, softirq, steal
  return fields.reduce((sum, ticks, i) => (i === 3 || i === 4 || i > 7 ? sum : sum + ticks), 0) * TICK_MS;
}

export class Sampler {
  readonly #serverPid: number;
  #peaks: Record<Group, number> = none();
  #busiest: Record<Group, number> = none();
  #begun: Moment;
  #last: Moment;
  readonly #timer: NodeJS.Timeout;

  constructor(serverPid: number) {
    this.#serverPid = serverPid;
    this.#begun = this.#look();
    this.#last = this.#begun;
    this.#timer = setInterval(() => this.#sample(), EVERY_MS);
  }

  /** Begins a window. */
  begin(): void {
    this.#begun = this.#look();
    this.#last = this.#begun;
    this.#peaks = none();
    this.#busiest = none();
  }

  /** The use since the window began. */
  end(): WindowUse {
    const megabytes = this.#sample();
    const [from, to] = [this.#begun, this.#last];
    const ms = to.at - from.at;
    const each = (of: (group: Group) => GroupUse) =>
      Object.fromEntries(GROUPS.map((group) => [group, of(group)])) as Record<Group, GroupUse>;
    const groups = each((group) => ({
      // a process that nobody waited for takes its time with it
      cores: Math.max(0, to.groups[group] - from.groups[group]) / ms,
      peakCores: this.#busiest[group],
      megabytes: megabytes[group],
      peakMegabytes: this.#peaks[group],
    }));
    const ours = GROUPS.reduce((sum, group) => sum + groups[group].cores, 0);
    const machine = (to.machine - from.machine) / ms;
    return {
      seconds: ms / 1_000,
      groups,
      mainThread: (to.mainThread - from.mainThread) / ms,
      busiestGenerator: Math.max(
        0,
        ...[...to.generators].map(([pid, own]) => (own - (from.generators.get(pid) ?? 0)) / ms),
      ),
      machine,
      others: Math.max(0, machine - ours),
      load: loadavg()[0]!,
      readMegabytes: (to.read - from.read) / 1e6,
      writtenMegabytes: (to.written - from.written) / 1e6,
    };
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Notes the processor time and the memory. Returns the memory. */
  #sample(): Record<Group, number> {
    const before = this.#last;
    this.#last = this.#look();
    const ms = this.#last.at - before.at;
    const memory = this.#memory();
    for (const group of GROUPS) {
      this.#peaks[group] = Math.max(this.#peaks[group], memory[group]);
      // a short interval would be a matter of ticks
      if (ms < EVERY_MS / 2) continue;
      const cores = (this.#last.groups[group] - before.groups[group]) / ms;
      this.#busiest[group] = Math.max(this.#busiest[group], cores);
    }
    return memory;
  }

  #members(): (readonly [Group, RunningProcess])[] {
    const daemons = new Set(processesBelow(this.#serverPid).map(({ pid }) => pid));
    return processesBelow(process.pid).map((one) => {
      if (one.pid === this.#serverPid) return ['server', one];
      if (/postgres/.test(one.command)) return ['postgres', one];
      return [daemons.has(one.pid) ? 'daemons' : 'generator', one];
    });
  }

  #look(): Moment {
    const groups = none();
    const generators = new Map<number, number>();
    for (const [group, { pid, own, children }] of this.#members()) {
      // the time of a process that has ended is in its parent
      groups[group] += group === 'server' ? own : own + children;
      if (group === 'generator') generators.set(pid, own);
    }
    const io = readFileSync(`/proc/${this.#serverPid}/io`, 'utf8');
    const bytes = (name: string) => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(io)![1]);
    return {
      at: performance.now(),
      groups,
      mainThread: ticksOf(`/proc/${this.#serverPid}/task/${this.#serverPid}/stat`),
      generators,
      machine: machineBusy(),
      read: bytes('rchar'),
      written: bytes('wchar'),
    };
  }

  #memory(): Record<Group, number> {
    const memory = none();
    for (const [group, { pid }] of this.#members()) {
      try {
        memory[group] += pssMegabytes(pid);
      } catch {
        // it has ended
      }
    }
    return memory;
  }
}

function none(): Record<Group, number> {
  return { server: 0, postgres: 0, daemons: 0, generator: 0 };
}

/** The machine, for a reader of the figures. */
export const machineText = (): string => `${cpus().length} cores, ${cpus()[0]!.model.trim()}`;
