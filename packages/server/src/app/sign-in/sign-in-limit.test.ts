import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Clock, isAppError } from '@ropewalk/kit';
import { createKnownDevices, createSignInLimit, DEVICE_LIFETIME_MS } from './sign-in-limit.ts';

function fakeClock() {
  let ms = 1_000_000_000_000;
  const clock: Clock = { now: () => new Date(ms), monotonic: () => ms } as Clock;
  return { clock, pass: (by: number) => (ms += by) };
}
const wrong = async () => false;
const right = async () => true;
const from = (address: string, account = 'ana@example.com', device?: string) => ({ address, account, device });
const limited = (err: unknown) => isAppError(err, 'rate_limited');

test('delays grow with failures and expire by themselves', async () => {
  const { clock, pass } = fakeClock();
  const limit = createSignInLimit(clock);
  for (let i = 0; i < 5; i += 1) assert.equal(await limit.attempt(from('a'), wrong), false);
  const delays: number[] = [];
  for (let i = 0; i < 8; i += 1) {
    let waited = 0;
    for (;;) {
      try {
        await limit.attempt(from('a'), wrong);
        break;
      } catch (err) {
        assert.ok(limited(err));
        pass(1_000);
        waited += 1;
      }
    }
    delays.push(waited);
  }
  assert.deepEqual(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
  pass(60_000);
  assert.equal(await limit.attempt(from('a'), right), true);
  assert.equal(await limit.attempt(from('a'), wrong), false, 'a success clears the delay');
});

test('failures of one address do not delay another address for the same account', async () => {
  const { clock } = fakeClock();
  const limit = createSignInLimit(clock);
  for (let i = 0; i < 5; i += 1) await limit.attempt(from('stranger'), wrong);
  await assert.rejects(limit.attempt(from('stranger'), wrong), limited);
  assert.equal(await limit.attempt(from('home'), right), true);
});

test('all addresses of one IPv6 network are one caller', async () => {
  const { clock } = fakeClock();
  const limit = createSignInLimit(clock);
  for (let i = 1; i <= 5; i += 1) await limit.attempt(from(`2001:db8:1:2:${i}::${i}`), wrong);
  await assert.rejects(limit.attempt(from('2001:db8:1:2::9'), right), limited);
  assert.equal(await limit.attempt(from('2001:db8:1:3::9'), right), true, 'another network is another caller');
});

test('a known device can sign in while strangers exhaust the budgets of the account and the address', async () => {
  const { clock } = fakeClock();
  const limit = createSignInLimit(clock);
  for (let i = 0; i < 200; i += 1) await limit.attempt(from(`s${i}`), wrong).catch(() => {});
  for (let i = 0; i < 200; i += 1) await limit.attempt(from('proxy', `u${i}`), wrong).catch(() => {});
  await assert.rejects(limit.attempt(from('new'), right), limited, 'the budget of the account is exhausted');
  await assert.rejects(
    limit.attempt(from('proxy', 'bo@example.com'), right),
    limited,
    'the budget of the address is exhausted',
  );
  assert.equal(await limit.attempt(from('proxy', 'ana@example.com', 'device'), right), true);
  for (let i = 0; i < 5; i += 1) await limit.attempt(from('proxy', 'ana@example.com', 'device'), wrong);
  await assert.rejects(
    limit.attempt(from('proxy', 'ana@example.com', 'device'), right),
    limited,
    'the device may not guess either',
  );
});

test('counts concurrent attempts before any of them has ended', async () => {
  const { clock } = fakeClock();
  const limit = createSignInLimit(clock);
  let checks = 0;
  const slow = () => {
    checks += 1;
    return new Promise<boolean>((resolve) => setImmediate(resolve, false));
  };
  const outcomes = await Promise.allSettled(Array.from({ length: 100 }, () => limit.attempt(from('a'), slow)));
  assert.equal(checks, 5);
  assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 95);
});

test('checks so many passwords at a time, known devices first, and rejects attempts beyond the queue', async () => {
  const { clock } = fakeClock();
  const limit = createSignInLimit(clock, { checksAtOnce: 2 });
  const order: string[] = [];
  let running = 0;
  let most = 0;
  const check = (name: string) => async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    order.push(name);
    return true;
  };
  const strangers = Array.from({ length: 80 }, (_, i) => limit.attempt(from(`s${i}`, `u${i}`), check(`s${i}`)));
  const known = limit.attempt(from('x', 'ana@example.com', 'device'), check('known'));
  const outcomes = await Promise.allSettled(strangers);
  await known;
  assert.equal(most, 2);
  assert.ok(order.indexOf('known') <= 3, order.slice(0, 5).join());
  assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 80 - 2 - 64);
});

test('the proof of a device is valid for its account only, and for a year', () => {
  const { clock, pass } = fakeClock();
  const devices = createKnownDevices('secret', clock);
  const [ana, bo] = [crypto.randomUUID(), crypto.randomUUID()];
  const proof = devices.issue(ana);
  const id = devices.verify(ana, proof);
  assert.ok(id);
  assert.equal(devices.verify(ana, devices.issue(ana, id)), id, 'a device keeps its id');
  assert.equal(devices.verify(bo, proof), undefined);
  assert.equal(devices.verify(ana, proof.replace(ana, bo)), undefined);
  assert.equal(createKnownDevices('other', clock).verify(ana, proof), undefined);
  assert.equal(devices.verify(ana, undefined), undefined);
  pass(DEVICE_LIFETIME_MS);
  assert.equal(devices.verify(ana, proof), undefined);
});

test('without the limit, attempts only take turns, however many wait', async () => {
  const { clock } = fakeClock();
  const limit = createSignInLimit(clock, { enabled: false, checksAtOnce: 2 });
  let running = 0;
  let most = 0;
  const attempts = Array.from({ length: 200 }, () =>
    limit.attempt({ address: '192.0.2.1', account: 'ada', device: undefined }, async () => {
      most = Math.max(most, ++running);
      await new Promise(setImmediate);
      running--;
      return false;
    }),
  );
  assert.deepEqual(new Set(await Promise.all(attempts)), new Set([false]));
  assert.equal(most, 2);
});
