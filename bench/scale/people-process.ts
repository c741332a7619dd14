// People, many in one separate process. See activities.ts.
import { type Activity, begin, type Reports } from './activities.ts';
import { Histogram, type Times } from './histogram.ts';

export interface PeopleOrder {
  kind: 'start';
  url: string;
  activities: Activity[];
}

export type PeopleMessage = PeopleOrder | { kind: 'take' };

/** What happened since the last report. */
export interface PeopleTimes {
  times: Record<string, Times>;
  counts: Record<string, number>;
  errors: number;
  /** The first few. */
  reasons: string[];
}

export type PeopleReport = { kind: 'ready' } | { kind: 'broken'; reason: string } | ({ kind: 'took' } & PeopleTimes);

/** Browsers and commands start one after the other, not all in the same millisecond. */
const STARTING_AT_ONCE = 32;
const REASONS = 5;

let times = new Map<string, Histogram>();
let counts: Record<string, number> = {};
let errors = 0;
let reasons: string[] = [];

const reports: Reports = {
  took(name, ms) {
    const histogram = times.get(name) ?? new Histogram();
    times.set(name, histogram);
    histogram.record(ms);
  },
  failed(name, reason) {
    errors += 1;
    if (reasons.length < REASONS) reasons.push(`${name}: ${reason instanceof Error ? reason.message : reason}`);
  },
  counted(name) {
    counts[name] = (counts[name] ?? 0) + 1;
  },
};

function take(): PeopleReport {
  const all = Object.fromEntries([...times].map(([name, histogram]) => [name, histogram.toJSON()]));
  const report: PeopleReport = { kind: 'took', times: all, counts, errors, reasons };
  [times, counts, errors, reasons] = [new Map(), {}, 0, []];
  return report;
}

function send(message: PeopleReport): void {
  if (process.connected) process.send!(message);
}

async function start({ url, activities }: PeopleOrder): Promise<void> {
  const left = [...activities];
  await Promise.all(
    Array.from({ length: STARTING_AT_ONCE }, async () => {
      for (let next = left.pop(); next; next = left.pop()) {
        const { kind } = next;
        await begin(url, next, reports).catch((err) => {
          throw new Error(`${kind}: ${(err as Error).message}`);
        });
      }
    }),
  );
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  process.on('message', (message: PeopleMessage) => {
    if (message.kind === 'take') {
      send(take());
      return;
    }
    start(message).then(
      () => send({ kind: 'ready' }),
      (err: Error) => send({ kind: 'broken', reason: err.message }),
    );
  });
}
