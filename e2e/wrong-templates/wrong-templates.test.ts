import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  commandTemplate,
  descendants,
  eventually,
  firstUser,
  importVersion,
  type ServerProcess,
  startCoderServer,
} from '../harness.ts';
import { WRONG_TEMPLATES } from './cases.ts';

const AT_ONCE = 3;

let server: ServerProcess;
before(async () => {
  server = await startCoderServer();
  await firstUser(server);
});
after(() => server?.stop());

test('each wrong template fails with an error that says what is wrong and where', { timeout: 600_000 }, async () => {
  const queue = [...WRONG_TEMPLATES];
  const odd: string[] = [];
  const work = async () => {
    for (let one = queue.shift(); one; one = queue.shift()) {
      const { job } = await importVersion(server, one.files);
      const { status, error = '' } = job;
      const isPlaced = /(?:^|: )[\w/]+\.tf:\d+: /.test(error);
      if (status !== 'failed' || !one.error.test(error) || (one.placed && !isPlaced))
        odd.push(`${one.name}: ${status} ${error}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  assert.deepEqual(odd, []);
  const left = () => descendants(server.child.pid!).filter(({ text }) => /terraform (?:init|plan|graph)/.test(text));
  await eventually('no process is left', () => left().length === 0);
  const good = await importVersion(server, commandTemplate('true'));
  assert.equal(good.job.status, 'succeeded', good.job.error ?? '');
});
