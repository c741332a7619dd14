import assert from 'node:assert/strict';
import { test } from 'node:test';
import { growthPerHour, judgeSoak, type Moment, type TableSize } from './soak-verdict.ts';

const moments = (memory: (minute: number) => number): Moment[] =>
  Array.from({ length: 121 }, (_, minute) => ({
    ...{ minute, serverMegabytes: memory(minute), postgresMegabytes: 1, descriptors: 100, threads: 20 },
    ...{ serverCores: 0.1, postgresCores: 0.1 },
  }));
const table = (given: Partial<TableSize>): TableSize => ({ bytes: 4e6, indexBytes: 0, rows: 1e4, dead: 0, ...given });
const run = {
  ...{ at: '', machine: '', users: 10, minutes: 120, faults: [], builds: 0, requests: 1, reasons: [], lost: 0 },
  ...{ moments: moments(() => 300), tables: {}, errors: 0, errorsOfFaults: 3, connected: 10 },
};
const missed = (given: Partial<typeof run> & { tables?: Record<string, { before: TableSize; after: TableSize }> }) =>
  judgeSoak({ ...run, ...given })
    .filter(({ met }) => !met)
    .map(({ what }) => what);

test('what grows after the first minutes counts, and what grew before does not', () => {
  const memory = ({ serverMegabytes }: Moment) => serverMegabytes;
  assert.ok(
    Math.abs(
      growthPerHour(
        moments((minute) => 300 + minute / 2),
        memory,
      ) -
        30 / 310,
    ) < 0.005,
  );
  const flat = growthPerHour(
    moments((minute) => (minute < 20 ? 100 + minute : 300)),
    memory,
  );
  assert.ok(Math.abs(flat) < 1e-9);
  assert.ok(Number.isNaN(growthPerHour(moments(() => 300).slice(0, 20), memory)));
  assert.deepEqual(missed({}), []);
  assert.deepEqual(missed({ moments: moments((minute) => 300 + minute / 2) }), [
    "growth of the server's memory (PSS) in an hour",
  ]);
});

test('a run that is too short, errors and lost agents are not good', () => {
  assert.equal(missed({ moments: [] }).length, 3);
  assert.deepEqual(missed({ errors: 1, connected: 9 }), [
    'errors without a fault',
    'agents that are not connected at the end',
  ]);
});

test('a table may grow with its rows, and by no more', () => {
  const tables = (after: Partial<TableSize>) => ({ tables: { jobs: { before: table({}), after: table(after) } } });
  assert.deepEqual(missed(tables({ bytes: 40e6, rows: 1e5 })), []);
  assert.deepEqual(missed(tables({ bytes: 7e6 })), ['jobs: growth per row']);
  assert.deepEqual(missed(tables({ bytes: 1e6, indexBytes: 6e6 })), ['jobs: growth per row']);
  assert.deepEqual(missed(tables({ dead: 6e3 })), ['jobs: dead rows']);
  const small = { before: table({ bytes: 1e4 }), after: table({ bytes: 1e6 }) };
  assert.deepEqual(missed({ tables: { small } }), []);
});
