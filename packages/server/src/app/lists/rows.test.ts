import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { convertRows } from './rows.ts';

test('leaves out a row that cannot be converted, and logs its id', () => {
  const lines: string[] = [];
  const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  const rows = [{ id: 'a' }, { id: 'b' }, { id: 'c' }];
  const converted = convertRows(log, rows, ({ id }) => {
    if (id === 'b') throw new RangeError('Invalid time value');
    return id.toUpperCase();
  });
  assert.deepEqual(converted, ['A', 'C']);
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /b.*Invalid time value|Invalid time value.*b/);
});
