import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { eventually } from '@ropewalk/testkit/wait';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import { type Log, UpdateJobResponseSchema } from '@ropewalk/wire/proto/provisionerd';
import type { JobPort } from './job-port.ts';
import { LogShipper } from './log-shipper.ts';

test('sends the lines of a slow answer’s time without further ones', async () => {
  const sent: string[][] = [];
  const first = Promise.withResolvers<void>();
  const port = {
    async update({ logs }: { logs: Log[] }) {
      sent.push(logs.map(({ output }) => output));
      if (sent.length === 1) await first.promise;
      return create(UpdateJobResponseSchema, {});
    },
  } as unknown as JobPort;
  const shipper = new LogShipper(port);
  shipper.say(LogLevel.INFO, 'one');
  await eventually('the first batch is on its way', () => sent.length === 1);
  shipper.say(LogLevel.INFO, 'two');
  // longer than a batch waits
  await delay(300);
  shipper.say(LogLevel.INFO, 'three');
  first.resolve();
  await eventually('the others follow', () => sent.length === 2);
  assert.deepEqual(sent, [['one'], ['two', 'three']]);
});

test('a flush waits for the lines so far, not for later ones', async () => {
  const sent: string[][] = [];
  const answers: (() => void)[] = [];
  const port = {
    async update({ logs }: { logs: Log[] }) {
      sent.push(logs.map(({ output }) => output));
      await new Promise<void>((resolve) => answers.push(resolve));
      return create(UpdateJobResponseSchema, {});
    },
  } as unknown as JobPort;
  const shipper = new LogShipper(port);
  shipper.say(LogLevel.INFO, 'one');
  const flushed = shipper.flush();
  shipper.say(LogLevel.INFO, 'two');
  answers[0]!();
  await flushed;
  assert.deepEqual(sent, [['one']]);
  let over = false;
  const rest = shipper.flush().then(() => {
    over = true;
  });
  await eventually('the second batch is on its way', () => sent.length === 2);
  assert.equal(over, false);
  answers[1]!();
  await rest;
});
