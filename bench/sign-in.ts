import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { CHECKS_AT_ONCE } from '@ropewalk/server/app/sign-in/sign-in-limit';
import { hashPassword, verifyPassword } from '@ropewalk/server/app/user/password';
import { firstUser, startCoderServer } from '../e2e/harness.ts';
import { paired, type Row } from './measure.ts';

const SECONDS = 2;
/** People who sign in at the same time: always enough for the server. */
const PEOPLE = 8;
const PASSWORD = 'a correct horse of many';
/** The time between two requests of the person who uses the API meanwhile, in ms. */
const PACE_MS = 4;

/** Runs `one` over and over in this many loops. Returns how often per second. */
async function perSecond(loops: number, one: (loop: number) => Promise<unknown>): Promise<number> {
  const started = performance.now();
  const until = started + SECONDS * 1000;
  let count = 0;
  await Promise.all(
    Array.from({ length: loops }, async (_, loop) => {
      while (performance.now() < until) {
        await one(loop);
        count++;
      }
    }),
  );
  return count / ((performance.now() - started) / 1000);
}

type Task = { kind: 'hash' } | { kind: 'sign in'; url: string };

const agent = new Agent({ keepAlive: true });

/** Signs in. `fetch` would take as much of the processors as the server does. */
function signIn(url: string, person: number): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const call = request(`${url}/api/v2/users/login`, { agent, method: 'POST', headers }, (answer) => {
      answer.resume();
      answer.once('end', () => {
        if (answer.statusCode === 201) resolve();
        else reject(new Error(`the sign-in was answered with ${answer.statusCode}`));
      });
    });
    call.once('error', reject);
    call.end(JSON.stringify({ email: `person-${person}@example.com`, password: PASSWORD }));
  });
}

// this file is also the process that hashes or signs in
if (process.argv[2] === 'work') {
  const hash = await hashPassword(PASSWORD);
  process.on('message', async (task: Task) => {
    process.send!(
      task.kind === 'hash'
        ? await perSecond(CHECKS_AT_ONCE, () => verifyPassword(hash, PASSWORD))
        : await perSecond(PEOPLE, (person) => signIn(task.url, person)),
    );
  });
  process.send!('ready');
}

/** The 99th percentile of a cheap request's time, in ms. */
async function p99(url: string, token: string, until: () => boolean): Promise<number> {
  const times: number[] = [];
  while (!until() || times.length < 100) {
    const started = performance.now();
    const answer = await fetch(`${url}/api/v2/users/me`, { headers: { 'Coder-Session-Token': token } });
    await answer.arrayBuffer();
    times.push(performance.now() - started);
    await new Promise((done) => setTimeout(done, PACE_MS));
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)]!;
}

/** Sign-ins with a password compared with the password hash alone, and other requests meanwhile. */
export async function benchSignIn(): Promise<Row[]> {
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false', CODER_PROVISIONER_DAEMONS: '0' } });
  const worker = fork(import.meta.filename, ['work']);
  try {
    await once(worker, 'message');
    await firstUser(server);
    for (let person = 0; person < PEOPLE; person++) {
      const body = { username: `person-${person}`, email: `person-${person}@example.com`, password: PASSWORD };
      const { status } = await server.api('POST', '/users', body);
      if (status !== 201) throw new Error(`creating a user was answered with ${status}`);
    }
    const work = async (task: Task): Promise<number> => {
      worker.send(task);
      return ((await once(worker, 'message')) as [number])[0];
    };
    const url = server.url;
    const beside: number[] = [];
    const alone: number[] = [];
    const rate = await paired(
      3,
      async () => {
        let done = false;
        const signingIn = work({ kind: 'sign in', url }).finally(() => {
          done = true;
        });
        const [count, slow] = await Promise.all([signingIn, p99(url, server.token, () => done)]);
        beside.push(slow);
        return count;
      },
      async () => {
        const count = await work({ kind: 'hash' });
        const until = performance.now() + SECONDS * 1000;
        alone.push(await p99(url, server.token, () => performance.now() > until));
        return count;
      },
    );
    const middle = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;
    const slower = middle(beside) / middle(alone);
    return [
      {
        what: 'sign-ins with a password, per second',
        ours: rate.ours.toFixed(0),
        floor: `${rate.floor.toFixed(0)} (argon2id alone, ${CHECKS_AT_ONCE} at a time)`,
        figure: rate.ratio.toFixed(2),
        reach: '≥ 0.80',
        met: rate.ratio >= 0.8,
      },
      {
        what: 'p99 of a request while people sign in',
        ours: `${middle(beside).toFixed(1)} ms`,
        floor: `${middle(alone).toFixed(1)} ms (nobody signs in)`,
        figure: `${slower.toFixed(1)}×`,
        reach: '≤ 4×',
        met: slower <= 4,
      },
    ];
  } finally {
    worker.kill();
    await server.stop();
  }
}
