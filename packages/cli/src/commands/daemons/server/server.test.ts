import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const MAIN = join(import.meta.dirname, '../../../main.ts');

test('writes its log in each format to its own file, and rejects an invalid filter', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'server-log-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const at = (format: string) => join(dir, `${format}.log`);
  const start = (env: NodeJS.ProcessEnv) =>
    spawnSync(process.execPath, [MAIN, 'server'], {
      encoding: 'utf8',
      env: {
        ...process.env,
        HOME: dir,
        // nothing listens there: the server ends immediately
        CODER_PG_CONNECTION_URL: 'postgres://127.0.0.1:1/none',
        CODER_TELEMETRY_ENABLE: 'false',
        ...env,
      },
    });
  const { stderr } = start({
    CODER_LOGGING_HUMAN: at('human'),
    CODER_LOGGING_JSON: at('json'),
    CODER_LOGGING_STACKDRIVER: at('stackdriver'),
  });
  assert.match(stderr, /Could not reach the database/);
  const lines = (format: string) => readFileSync(at(format), 'utf8').trim().split('\n');
  const message = 'these options have no effect';
  assert.match(lines('human')[0]!, new RegExp(`\\[warn\\] ${message} options=telemetry$`));
  const json = JSON.parse(lines('json')[0]!) as Record<string, string>;
  assert.deepEqual([json['level'], json['msg'], json['options']], ['warn', message, 'telemetry']);
  const google = JSON.parse(lines('stackdriver')[0]!) as Record<string, string>;
  assert.deepEqual([google['severity'], google['message'], google['timestamp']], ['WARNING', message, json['ts']]);
  assert.match(start({ CODER_LOG_FILTER: '(' }).stderr, /Invalid --log-filter "\(": .*Unterminated group/);
});
