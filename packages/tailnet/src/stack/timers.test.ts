import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { createAlarm, Timers } from './timers.ts';

/** One timer at a time, in virtual time. */
function virtual() {
  const time = { now: 0, timers: 0 };
  let next: { at: number; callback: () => void } | undefined;
  const timers = new Timers(
    () => time.now,
    (callback, ms) => {
      assert.equal(next, undefined, 'two real timers at the same time');
      const mine = { at: time.now + ms, callback };
      next = mine;
      time.timers++;
      return () => {
        if (next === mine) next = undefined;
      };
    },
  );
  return {
    time,
    timers,
    isIdle: () => next === undefined,
    advance(ms: number) {
      const end = time.now + ms;
      while (next && next.at <= end) {
        const { at, callback } = next;
        next = undefined;
        time.now = at;
        callback();
      }
      time.now = end;
    },
  };
}

test('alarms ring once, at their newest time, in order', () => {
  const { timers, advance, time } = virtual();
  const rung: string[] = [];
  const alarm = (name: string) => createAlarm((now) => rung.push(`${name} ${now}`));
  const [a, b, c] = [alarm('a'), alarm('b'), alarm('c')];
  timers.set(a, 100);
  timers.set(b, 50);
  timers.set(c, 70);
  timers.set(a, 300);
  timers.set(b, 60);
  timers.cancel(c);
  advance(400);
  assert.deepEqual(rung, ['b 60', 'a 300']);
  assert.equal(timers.size, 0);
  assert.ok(time.timers <= 5);
});

test('many alarms that change ring exactly when they are due', () => {
  const random = seededRandom(9);
  const { timers, advance, time } = virtual();
  const due = new Map<number, number>();
  const alarms = Array.from({ length: 60 }, (_, i) =>
    createAlarm((now) => {
      assert.equal(due.get(i), now);
      due.delete(i);
    }),
  );
  for (let i = 0; i < 5_000; i++) {
    const index = random(alarms.length);
    if (random(10) === 0) {
      timers.cancel(alarms[index]!);
      due.delete(index);
    } else {
      const at = time.now + 1 + random(200);
      timers.set(alarms[index]!, at);
      due.set(index, at);
    }
    advance(random(4));
    for (const at of due.values()) assert.ok(at > time.now);
  }
  advance(1_000);
  assert.equal(due.size, 0);
});

test('close cancels everything', () => {
  const { timers, advance, isIdle } = virtual();
  const alarm = createAlarm(() => assert.fail('rang'));
  timers.set(alarm, 10);
  timers.close();
  assert.equal(isIdle(), true);
  timers.set(alarm, 20);
  advance(100);
});
