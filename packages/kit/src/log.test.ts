import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createLogger, pathSink } from './log.ts';

let dir: string;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'log-'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

test('a log file that can not be opened is an error in words', () => {
  assert.throws(() => pathSink(join(dir, 'nowhere', 'x.log'), 'human'), {
    code: 'invalid',
    message: /^The log file .*x\.log can not be opened: ENOENT/,
  });
});

test('one that can not be written any more is told once, and the lines go to stderr', async (t) => {
  const told: string[] = [];
  t.mock.method(process.stderr, 'write', (line: string) => told.push(line) > 0);
  // always full
  const log = createLogger({ sinks: [pathSink('/dev/full', 'human')!] });
  log.info('lost');
  while (told.length === 0) await new Promise((resolve) => setImmediate(resolve));
  log.info('seen');
  log.info('seen, too');
  assert.equal(told.length, 3);
  assert.match(told[0]!, /^The log file \/dev\/full can not be written any more: ENOSPC/);
  assert.match(told[2]!, /seen, too/);
});

test('lines are added to what a file holds', async () => {
  const path = join(dir, 'x.log');
  for (const line of ['one', 'two']) createLogger({ sinks: [pathSink(path, 'human')!] }).info(line);
  while (!/one.*two/s.test(readFileSync(path, 'utf8'))) await new Promise((resolve) => setImmediate(resolve));
});

test('shows control characters instead of sending them to a terminal', () => {
  for (const format of ['human', 'json'] as const) {
    const lines: string[] = [];
    const log = createLogger({ sinks: [{ format, write: (line) => lines.push(line) }] });
    const hostile = 'a\u001b]0;x\u0007\u009b31m\u202eb\nc';
    log.info(`took ${hostile}`, { daemon: hostile });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
    assert.doesNotMatch(lines[0]!, /[\u0000-\u001f\u007f-\u009f\u202e]/);
    assert.match(lines[0]!, /\\u001b/);
  }
});
