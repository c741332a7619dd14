// own process: measures its memory and descriptors

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { Lifecycle_State } from '@ropewalk/wire/proto/agent';
import type { Activity } from '../activity.ts';
import type { Lifecycle } from '../lifecycle.ts';
import type { Workspace } from '../workspace.ts';
import { ptyService } from './pty.ts';

const descriptors = () => readdirSync('/proc/self/fd').length;
const children = () =>
  readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean);

async function until(what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`not within 60 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test('leaves nothing behind after a thousand terminals opened and dropped', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const activity = { begin: () => () => {}, count: () => {} } as unknown as Activity;
  const service = ptyService(activity, { state: Lifecycle_State.READY } as Lifecycle, { idleMs: 1, most: 50 });
  service.setWorkspace({
    session: () => ({ file: '/bin/sh', args: ['-c', 'echo up; exec sleep 300'], env: {}, cwd: '/' }),
  } as unknown as Workspace);
  const once = async () => {
    const [near, far] = duplexPair();
    const request = { service: 'pty', id: crypto.randomUUID(), user: 'ann' };
    const served = service.serve({ request, accept: () => far, refuse: () => {} });
    await new Promise((resolve) => near.once('data', resolve));
    near.end();
    near.resume();
    await served;
  };
  const round = async (count: number) => {
    for (let done = 0; done < count; done += 25) {
      await until('a free place', () => children().length < 25);
      await Promise.all(Array.from({ length: 25 }, once));
    }
    await until('all have ended', () => children().length === 0);
  };
  await round(100);
  const before = { descriptors: descriptors(), rss: process.memoryUsage().rss };
  await round(1_000);
  await until('the descriptors are closed', () => descriptors() <= before.descriptors + 2);
  const grown = (process.memoryUsage().rss - before.rss) / 1e6;
  t.diagnostic(`${grown.toFixed(1)} MB more after 1,000 terminals`);
  assert.ok(grown < 60, `${grown} MB`);
});
