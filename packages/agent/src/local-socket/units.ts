// Units are steps of a workspace's start, most often scripts, that say which others they need. A unit is unknown, then
// pending, started and completed. It is ready when every unit that it wants is completed.

import { AppError } from '@ropewalk/kit';

/** As upstream's commands print them. The empty one is a unit that nobody has named yet. */
export type UnitStatus = '' | 'pending' | 'started' | 'completed';

export interface Dependency {
  unit: string;
  dependsOn: string;
  currentStatus: UnitStatus;
  isSatisfied: boolean;
}

const MAX_UNITS = 1_000;
const MAX_NAME_LENGTH = 256;

interface Unit {
  status: UnitStatus;
  wants: Set<string>;
}

/** The units of one run of the agent. Every call with an invalid name throws AppError `invalid`. */
export interface Units {
  /** Makes a unit wait for another. @throws AppError `conflict` if the units would wait for each other */
  want(unit: string, dependsOn: string): void;
  /** @throws AppError `conflict` if it has started, or one that it wants is not completed */
  start(unit: string): void;
  /** @throws AppError `not_found` if nobody has named it, `conflict` if it is completed */
  complete(unit: string): void;
  isReady(unit: string): boolean;
  status(unit: string): UnitStatus;
  dependencies(unit: string): Dependency[];
  list(): { unit: string; status: UnitStatus; isReady: boolean }[];
}

export function createUnits(): Units {
  const units = new Map<string, Unit>();

  function named(name: string): Unit | undefined {
    if (name === '') throw new AppError('invalid', 'The name of a unit is empty.');
    if (name.length > MAX_NAME_LENGTH)
      throw new AppError('invalid', `The name of a unit can have up to ${MAX_NAME_LENGTH} characters.`);
    return units.get(name);
  }
  function register(name: string): Unit {
    const known = named(name);
    if (known) return known;
    if (units.size >= MAX_UNITS) throw new AppError('conflict', `An agent can have up to ${MAX_UNITS} units.`);
    const unit: Unit = { status: 'pending', wants: new Set() };
    units.set(name, unit);
    return unit;
  }
  /** Whether one unit waits for another, directly or through others. */
  function waitsFor(from: string, to: string, seen = new Set<string>()): boolean {
    if (from === to) return true;
    if (seen.has(from)) return false;
    seen.add(from);
    return [...(units.get(from)?.wants ?? [])].some((next) => waitsFor(next, to, seen));
  }
  const status = (name: string): UnitStatus => named(name)?.status ?? '';
  const isReady = (name: string): boolean =>
    [...(named(name)?.wants ?? [])].every((one) => status(one) === 'completed');

  return {
    want(name, dependsOn) {
      named(dependsOn);
      if (waitsFor(dependsOn, name)) {
        throw new AppError('conflict', `Unit ${JSON.stringify(name)} cannot want ${JSON.stringify(dependsOn)}: cycle.`);
      }
      const unit = register(name);
      if (unit.wants.size >= MAX_UNITS) throw new AppError('conflict', `A unit can want up to ${MAX_UNITS} others.`);
      unit.wants.add(dependsOn);
    },
    start(name) {
      const unit = register(name);
      if (!isReady(name)) throw new AppError('conflict', `Unit ${JSON.stringify(name)} is not ready.`);
      if (unit.status === 'started')
        throw new AppError('conflict', `Unit ${JSON.stringify(name)} has already started.`);
      unit.status = 'started';
    },
    complete(name) {
      const unit = named(name);
      if (!unit) throw new AppError('not_found', `Unit ${JSON.stringify(name)} has not started.`);
      if (unit.status === 'completed')
        throw new AppError('conflict', `Unit ${JSON.stringify(name)} is already completed.`);
      unit.status = 'completed';
    },
    isReady,
    status,
    dependencies: (name) =>
      [...(named(name)?.wants ?? [])].map((dependsOn) => {
        const currentStatus = status(dependsOn);
        return { unit: name, dependsOn, currentStatus, isSatisfied: currentStatus === 'completed' };
      }),
    list: () => [...units].map(([unit, { status: now }]) => ({ unit, status: now, isReady: isReady(unit) })),
  };
}
