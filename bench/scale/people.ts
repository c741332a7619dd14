// The processes of people, and what they report together.
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { Activity } from './activities.ts';
import { Histogram } from './histogram.ts';
import type { PeopleMessage, PeopleReport, PeopleTimes } from './people-process.ts';

export interface PeopleFigures {
  times: Map<string, Histogram>;
  counts: Record<string, number>;
  errors: number;
  reasons: string[];
}

export interface People {
  /** What happened since the last call. */
  take(): Promise<PeopleFigures>;
  stop(): void;
}

/** One report of several processes. */
export function mergeReports(reports: readonly PeopleTimes[]): PeopleFigures {
  const names = new Set(reports.flatMap(({ times }) => Object.keys(times)));
  const counts: Record<string, number> = {};
  for (const report of reports)
    for (const [name, count] of Object.entries(report.counts)) counts[name] = (counts[name] ?? 0) + count;
  return {
    times: new Map(
      [...names].map((name) => [name, Histogram.of(...reports.flatMap(({ times }) => times[name] ?? []))]),
    ),
    counts,
    errors: reports.reduce((sum, { errors }) => sum + errors, 0),
    reasons: reports.flatMap(({ reasons }) => reasons),
  };
}

/** Resolves when each person's activity is established. Each person is in one process. */
export async function startPeople(url: string, activities: readonly Activity[], processes: number): Promise<People> {
  const children: ChildProcess[] = [];
  const stop = () => {
    for (const child of children) {
      child.removeAllListeners('exit');
      if (child.connected) child.disconnect();
    }
  };
  const order = (child: ChildProcess, message: PeopleMessage): Promise<PeopleReport> =>
    new Promise((resolve, reject) => {
      const ended = (code: number | null) => reject(new Error(`a process of people ended with ${code}`));
      child.once('exit', ended);
      child.once('message', (report: PeopleReport) => {
        child.off('exit', ended);
        if (report.kind === 'broken') reject(new Error(report.reason));
        else resolve(report);
      });
      child.send(message);
    });
  for (let i = 0; i < processes; i++) children.push(fork(join(import.meta.dirname, 'people-process.ts')));
  try {
    await Promise.all(
      children.map((child, i) =>
        order(child, { kind: 'start', url, activities: activities.filter((_one, n) => n % processes === i) }),
      ),
    );
  } catch (err) {
    stop();
    throw err;
  }
  return {
    async take() {
      const reports = await Promise.all(children.map((child) => order(child, { kind: 'take' })));
      return mergeReports(reports.filter((report) => report.kind === 'took'));
    },
    stop,
  };
}
