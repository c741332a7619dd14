import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cronError } from './cron.ts';

test('schedules', () => {
  for (const good of ['0 */5 8-18 * * mon-fri', '0,30 0 0 1 JAN *', '@daily', '*/10 * * * * *', '0 0 0 ? * 1/2'])
    assert.equal(cronError(good, 6), undefined, good);
  for (const bad of ['* * * * *', '60 * * * * *', '* * * * * 7', '* 5-1 * * * *', '* */0 * * * *', 'a * * * * *'])
    assert.notEqual(cronError(bad, 6), undefined, bad);
  assert.equal(cronError('* 8-18 * * 1-5', 5), undefined);
  assert.notEqual(cronError('0 0 1 * * *', 5), undefined);
});
