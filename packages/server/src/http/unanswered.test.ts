import assert from 'node:assert/strict';
import { Agent, createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { systemClock } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit';
import { collectGarbage } from '@ropewalk/testkit/garbage';
import { Unanswered } from './unanswered.ts';

const waiting: ServerResponse[] = [];
const server = createServer((_request, answer) => waiting.push(answer));
const unanswered = new Unanswered(server);
const agent = new Agent({ keepAlive: true });
before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
after(() => {
  agent.destroy();
  server.close();
});

async function ask(): Promise<{ answer: Promise<IncomingMessage>; response: ServerResponse }> {
  const begun = new Promise((resolve) => server.once('request', resolve));
  const answer = new Promise<IncomingMessage>((resolve, reject) =>
    get({ port: (server.address() as AddressInfo).port, agent }, resolve).once('error', reject),
  );
  await begun;
  return { answer, response: waiting.pop()! };
}

test('waits until each request has its answer or its stream, and not for ever', async () => {
  await unanswered.none(systemClock, 10_000);
  const [first, second] = [await ask(), await ask()];
  let isOver = false;
  const over = unanswered.none(systemClock, 10_000).then(() => {
    isOver = true;
  });
  first.response.end('done');
  (await first.answer).resume();
  await systemClock.sleep(60);
  assert.equal(isOver, false, 'one has no answer');
  second.response.writeHead(200).write('a stream');
  await over;
  (await second.answer).destroy();
  const third = await ask();
  await unanswered.none(systemClock, 50);
  third.response.end();
  (await third.answer).resume();
});

test('forgets each answer when it has ended', async () => {
  const ended: WeakRef<ServerResponse>[] = [];
  for (let i = 0; i < 5; i++) {
    const { answer, response } = await ask();
    response.end();
    (await answer).resume();
    ended.push(new WeakRef(response));
  }
  await eventually('the answers are garbage', async () => {
    collectGarbage();
    // the connection may keep the last one
    return ended.filter((one) => one.deref()).length <= 1;
  });
});

test('its last answers close their connections', async () => {
  const before = await ask();
  before.response.end();
  assert.equal((await before.answer).resume().headers.connection, 'keep-alive');
  unanswered.leave();
  const last = await ask();
  last.response.end();
  assert.equal((await last.answer).resume().headers.connection, 'close');
});
