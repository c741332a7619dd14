import assert from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { connectSession } from '@ropewalk/wire/resume/client';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { eventually } from '@ropewalk/wire/testing/sockets';
import type { Path, PathSource } from './path.ts';
import { AgentPaths } from './reach.ts';

const HOLDER = { user: 'ada', key: 'a key' };

/** A connection whose bytes take half of `ms` in each direction. Those that `isOpen` stops are lost. */
function slowPair(ms: number, isOpen = () => true): [Duplex, Duplex] {
  const [near, inner] = duplexPair();
  const [outer, far] = duplexPair();
  const carry = (from: Duplex, to: Duplex) => {
    from.on('data', (part) => void setTimeout(() => isOpen() && !to.destroyed && to.write(part), ms / 2));
    from.on('close', () => to.destroy());
    from.on('error', () => {});
  };
  carry(inner, outer);
  carry(outer, inner);
  return [near, far];
}

/** An agent with a session through a slow server, and paths to it. */
async function setUp(t: TestContext, serverMs: number) {
  const agent = new ResumableSessions();
  const session = await connectSession({
    dial: async (kind) => {
      const [near, far] = slowPair(serverMs);
      if (kind === 'attach') void agent.attach(far, HOLDER);
      else echo(agent.serve(far, HOLDER));
      return near;
    },
    mayRetry: () => true,
  });
  const paths = new AgentPaths(() => {});
  const moves: string[] = [];
  paths.add(session, (path) => moves.push(path));
  t.after(() => {
    session.stream.destroy();
    agent.close();
  });
  const source = (
    name: string,
    state: { ms: number | undefined; carriesBulk?: boolean; isProvenByBytes?: boolean; onlyPingsFail?: boolean },
  ): PathSource => ({
    firstRetryMs: 60_000,
    join: async () => {
      const open = new Set<Duplex>();
      const path: Path = {
        ...{ name, carriesBulk: state.carriesBulk ?? true, end: undefined },
        isProvenByBytes: state.isProvenByBytes ?? true,
        measured: state.ms === undefined ? [] : [state.ms, state.ms, state.ms],
        probe: async () => state.ms,
        connect: async () => {
          const [near, far] = slowPair(state.ms ?? 0, () => state.ms !== undefined || state.onlyPingsFail === true);
          open.add(near);
          void agent.attach(far, HOLDER);
          return near;
        },
        close: async () => {
          for (const each of open) each.destroy();
        },
      };
      return path;
    },
  });
  return { session, paths, moves, source };
}

const echo = (stream: Duplex) => void stream.pipe(stream);

test('a session takes the fastest path, and another one when that is silent', { timeout: 60_000 }, async (t) => {
  const { session, paths, moves, source } = await setUp(t, 100);
  const [direct, proxy] = [{ ms: 10 as number | undefined }, { ms: 40 as number | undefined }];
  let [sent, back] = ['', ''];
  session.stream.on('data', (part) => {
    back += String(part);
  });
  const timer = setInterval(() => {
    session.stream.write('x');
    sent += 'x';
  }, 20);
  t.after(() => clearInterval(timer));
  paths.offer('proxy', () => source('proxy eu', proxy));
  await eventually(() => moves.join() === 'proxy eu', 'it is at the proxy');
  paths.offer('direct', () => source('direct', direct));
  await eventually(() => moves.join() === 'proxy eu,direct', 'it is direct');
  assert.deepEqual(
    paths.measured().toSorted((a, b) => a.ms - b.ms),
    [
      { path: 'direct', ms: 10 },
      { path: 'proxy eu', ms: 40 },
    ],
  );
  direct.ms = undefined;
  await eventually(() => moves.join() === 'proxy eu,direct,,proxy eu', 'it is back at the proxy', 15_000);
  proxy.ms = 200;
  await eventually(() => moves.join() === 'proxy eu,direct,,proxy eu,', 'it is at the server', 15_000);
  clearInterval(timer);
  await eventually(() => back === sent, 'every byte came back once');
});

test('a session stays on a path whose bytes arrive, although pings do not', { timeout: 30_000 }, async (t) => {
  const { session, paths, moves, source } = await setUp(t, 100);
  const proxy = { ms: 10 as number | undefined, onlyPingsFail: true };
  session.stream.resume();
  const timer = setInterval(() => session.stream.write('x'), 100);
  t.after(() => clearInterval(timer));
  paths.offer('proxy', () => source('proxy eu', proxy));
  await eventually(() => moves.join() === 'proxy eu', 'it is at the proxy');
  proxy.ms = undefined;
  // longer than a path without pings lives
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  assert.deepEqual(moves, ['proxy eu']);
});

test('a session leaves the direct path without pings, also if a relay carries its bytes', {
  timeout: 30_000,
}, async (t) => {
  const { session, paths, moves, source } = await setUp(t, 100);
  const direct = { ms: 10 as number | undefined, isProvenByBytes: false, onlyPingsFail: true };
  session.stream.resume();
  const timer = setInterval(() => session.stream.write('x'), 100);
  t.after(() => clearInterval(timer));
  paths.offer('direct', () => source('direct', direct));
  await eventually(() => moves.join() === 'direct', 'it is direct');
  direct.ms = undefined;
  await eventually(() => moves.join() === 'direct,', 'it is at the server', 15_000);
});

test('a path that is hardly better is not worth a move', { timeout: 30_000 }, async (t) => {
  const { session, paths, moves, source } = await setUp(t, 40);
  await eventually(() => session.stream.roundTripMs > 0, 'the server is measured');
  const less = (ms: number) => ({
    get ms() {
      return session.stream.roundTripMs - ms;
    },
  });
  paths.offer('proxy', () => source('proxy eu', less(1)));
  paths.offer('direct', () => source('direct', less(2)));
  await eventually(() => paths.measured().length === 2, 'both are measured');
  // several rounds of measurements
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  assert.deepEqual(moves, []);
});

test('a session that carries much takes only paths for it', { timeout: 30_000 }, async (t) => {
  const { session, paths, moves, source } = await setUp(t, 100);
  paths.offer('direct', () => source('direct', { ms: 5, carriesBulk: false }));
  await eventually(() => moves.join() === 'direct', 'it is direct');
  const part = Buffer.alloc(256 * 1024);
  session.stream.resume();
  const write = () => {
    while (!session.stream.destroyed && session.stream.write(part));
  };
  session.stream.on('drain', write);
  write();
  await eventually(() => moves.join() === 'direct,', 'it is at the server', 15_000);
  paths.offer('proxy', () => source('proxy eu', { ms: 6 }));
  await eventually(() => moves.join() === 'direct,,proxy eu', 'it is at the proxy', 15_000);
});
