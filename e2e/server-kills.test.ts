// Three servers behind a balancer, one of which is always about to fail, while people build, type, forward ports, follow
// logs and watch pages. Nothing may be lost, doubled or ended. KILL_TEST_SECONDS sets how long, such as 300 (with
// TEST_FILE_SECONDS=900), and KILL_TEST_LOG a file that shows how it goes. From 300 s on, people first work for a minute
// without faults, and requests away from faults may be twice as slow.
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Deployment, type Member, startDeployment } from './deployment.ts';
import { ensureExecutable, eventually, PROGRAM } from './harness.ts';
import { invitePeople, type People, work } from './people.ts';

const SECONDS = Number(process.env['KILL_TEST_SECONDS'] ?? 80);
/** How long people work without faults first, as a measure for the time with faults. */
const QUIET_SECONDS = 60;
const FAULT_EVERY_MS = 10_000;
/** A stopped server stays so for longer than the others wait for its sign of life. */
const STOPPED_MS = 20_000;
const CUT_MS = 8_000;

let deployment: Deployment;
let people: People;

before(async () => {
  await ensureExecutable();
  deployment = await startDeployment();
  for (let n = 0; n < 3; n += 1) await deployment.add();
  people = await invitePeople(deployment, PROGRAM);
});
after(async () => {
  people?.end();
  await deployment?.stop();
});

const FAULTS: Record<string, (member: Member) => Promise<void>> = {
  async kill({ server }) {
    await server.kill();
    await delay(1_000);
    await server.restart();
  },
  async terminate({ server }) {
    await server.terminate();
    await server.restart();
  },
  async stop({ server }) {
    server.child.kill('SIGSTOP');
    await delay(STOPPED_MS);
    server.child.kill('SIGCONT');
  },
  async cut({ peers }) {
    peers.cut();
    await delay(CUT_MS);
    peers.mend();
  },
};

/** Makes one server after another fail until the time is over. */
async function fail(report: (text: string) => void): Promise<void> {
  const { members } = deployment;
  const until = performance.now() + SECONDS * 1_000;
  const kinds = Object.keys(FAULTS);
  for (let n = 0; performance.now() < until; n += 1) {
    const kind = kinds[n % kinds.length]!;
    const member = members[n % members.length]!;
    const next = delay(FAULT_EVERY_MS);
    report(`${kind} server ${n % members.length}`);
    await FAULTS[kind]!(member);
    report(`${kind} is over`);
    await eventually('the server is in use again', () => member.healthy);
    await next;
  }
}

/** Shows how it goes while it goes, in this file. */
function log(text: string): void {
  const file = process.env['KILL_TEST_LOG'];
  if (file) appendFileSync(file, `${text}\n`);
}

test('nothing is lost, doubled or ended while servers are killed, stopped and cut off', async () => {
  const quiet = SECONDS >= 300 ? await work(people, QUIET_SECONDS, () => delay(QUIET_SECONDS * 1_000), log) : undefined;
  const { violations, changes, p99 } = await work(people, SECONDS, fail, log);
  assert.deepEqual(violations, [], changes);
  if (quiet) assert.ok(p99 <= 2 * quiet.p99, `p99 ${p99} ms, without faults ${quiet.p99} ms`);
});
