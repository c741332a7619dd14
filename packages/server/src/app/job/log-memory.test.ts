// own process: measures its memory

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { LogSchema } from '@ropewalk/wire/proto/provisionerd';
import type { OwnedJob } from '../../db/queries/job-ownership.ts';
import { memory } from '../../rpc/testing/peer.ts';
import { createLogKeeper } from './log-keeper.ts';
import { logLine } from './log-lines.ts';

const MIB = 1024 * 1024;
const JOB = { id: '' } as OwnedJob;

test('the tail of a log holds only the stored part of a long line', async () => {
  const keeper = createLogKeeper();
  const message = toBinary(LogSchema, create(LogSchema, { output: 'x'.repeat(MIB) }));
  // long strings from a message are stored outside the heap
  const held = async () => (await memory()) + process.memoryUsage().external;
  const before = await held();
  // more than is stored at a time: these lines stay in memory until the job ends
  for (let i = 0; i < 4_200; i += 1) keeper.keep([logLine(create(LogSchema, { output: 'y'.repeat(2_000) }))], JOB);
  for (let i = 0; i < 100; i += 1) keeper.keep([logLine(fromBinary(LogSchema, message))], JOB);
  const grown = (await held()) - before;
  assert.ok(grown < 20 * MIB, `${Math.round(grown / MIB)} MiB`);
  await keeper.storeRest(async (lines) => assert.ok(lines.length > 100));
});
