import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { READ_ONLY } from '../../db/connect.ts';
import { patient } from '../patience.ts';
import { callsAfter } from './log-writers.ts';

test('a connection becomes the agent again after the database has failed during its first call', async () => {
  let entered = 0;
  const enter = async () => {
    entered += 1;
    if (entered === 1) throw Object.assign(new Error('read-only'), { code: READ_ONLY });
  };
  const api = callsAfter(enter, { updateLifecycle: ({ lifecycle }) => lifecycle ?? {} }, {});
  const calls = patient(api as never, createLogger({ sinks: [] }), { patienceMs: 2_000 }) as typeof api;
  const context = { signal: new AbortController().signal, metadata: {}, endWithClose: () => {} };
  await calls.updateLifecycle!({} as never, context);
  await calls.updateLifecycle!({} as never, context);
  assert.equal(entered, 2);
});
