import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lacksSeconds, overlapError, prebuildCronError, scriptCronError } from './cron.ts';

// What the registry's provider takes and refuses.
test('schedules of scripts', () => {
  for (const good of [
    '0 */5 8-18 * * mon-fri',
    '0,30 0 0 1 JAN *',
    '@daily',
    '*/10 * * * * *',
    '0 0 0 ? * 1/2',
    '*/5 * * * *',
    '* * * * jan',
    'CRON_TZ=UTC 0 * * * * *',
    'TZ=Europe/Berlin 0 0 8 * * *',
    'TZ= 0 * * * * *',
    'CRON_TZ=Local * * * * *',
    'CRON_TZ=UTC @daily',
    '@every 1h30m',
    '@every -5s',
    '@every 0s',
    '1,2,,3 * * * * *',
    '+1 08 * * * *',
    '*-5 * * * * *',
    '*/61 * * * * *',
  ])
    assert.equal(scriptCronError(good), undefined, good);
  for (const bad of [
    '',
    ' ',
    '0 0 0 *',
    '0 0 0 * * * *',
    '60 * * * * *',
    '0 0 0 * * 7',
    '0 5-1 * * * *',
    '0 */0 * * * *',
    'a * * * * *',
    '0 0 * * * Sunday',
    '1/2/3 * * * * *',
    '1-2-3 * * * * *',
    '5-* * * * * *',
    '-1 * * * * *',
    'TZ=UTC',
    'TZ=Nowhere 0 * * * * *',
    'CRON_TZ=utc 0 * * * * *',
    'TZ=+01:00 0 * * * * *',
    'tz=UTC 0 * * * * *',
    '@every 90x',
    '@every 1',
    '@every 1d',
    '@every',
    '@every ',
    '@Daily',
    '@daily ',
    ' @daily',
    '@reboot',
  ])
    assert.notEqual(scriptCronError(bad), undefined, bad);
  assert.deepEqual(['*/5 * * * *', '0 0 0 1 *', '* * * * jan', '0 * * * * *'].map(lacksSeconds), [
    true,
    false,
    false,
    false,
  ]);
});

test('schedules of prebuilt workspaces, alone and together', () => {
  for (const good of ['* 8-18 * * 1-5', '* 8 * * MON-FRI', '* */2 * jan *', ' *  +8, ? * ?', '* *-8 * * sun'])
    assert.equal(prebuildCronError(good), undefined, good);
  for (const bad of [
    '0 8 * * *',
    '*/1 8 * * *',
    '* 24 * * *',
    '* 8 0 * *',
    '* 8 * * 7',
    '* 8 * *',
    '@daily',
    '* 1W * * *',
  ])
    assert.notEqual(prebuildCronError(bad), undefined, bad);

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
  for (const schedules of unclear) assert.match(overlapError(schedules) ?? '', /cannot be compared/);
});
