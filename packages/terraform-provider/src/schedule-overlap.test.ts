import assert from 'node:assert/strict';
import { test } from 'node:test';
import { overlapError } from './schedule-overlap.ts';

test('finds schedules of prebuilt workspaces that overlap', () => {
  const apart = [
    ['* 8-17 * * 1-5', '* 18 * * 5'],
    ['* 8-18 * * 1-5', '* 8-18 * * 6,0'],
    ['* 8 1 * *', '* 8 2 * *'],
    ['* 8 1 * 1', '* 8 2 * 2'],
    ['* 8 * 1 *', '* 8 * 2 *'],
    ['* 8 ? * 1', '* 8 * * 2'],
    ['* 8 * * mon'],
    [],
  ];
  for (const schedules of apart) assert.equal(overlapError(schedules), undefined, schedules.join(' & '));
  const together = [
    ['* 8-18 * * 1-5', '* 18 * * 5'],
    ['* 8 1 * *', '* 8 * * 1'],
    ['* 8 1 * 1', '* 8 2 * 1'],
    ['* 8 * 1-6 *', '* 8 * 6-12 *'],
    ['* 1 * * *', '* 2 * * *', '* 1-2 * * *'],
  ];
  for (const schedules of together) assert.match(overlapError(schedules) ?? '', /overlap$/, schedules.join(' & '));
  const unclear = [
    ['* */2 * * *', '* 1 * * *'],
    ['* 8 * * mon', '* 9 * * tue'],
    ['* ? * * *', '* 8 * * *'],
  ];
  for (const schedules of unclear) assert.match(overlapError(schedules) ?? '', /cannot compare/);
});
