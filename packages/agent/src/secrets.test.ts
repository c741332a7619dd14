import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { type RunningAgent, runAgent } from './agent.ts';
import { startTestServer, type TestServer, TOKEN } from './testing/server.ts';
import { run, sshClient } from './testing/ssh-client.ts';

const secret = (envName: string, filePath: string, text: string) => ({ envName, filePath, value: Buffer.from(text) });

describe('secrets of the owner', () => {
  let server: TestServer;
  let agent: RunningAgent;
  let home: string;
  let lines: string;
  beforeEach(async () => {
    server = await startTestServer();
    home = mkdtempSync(join(tmpdir(), 'agent-secrets-'));
    lines = '';
  });
  afterEach(async () => {
    await agent.stop();
    await server.close();
    rmSync(home, { recursive: true, force: true });
  });
  const start = async () => {
    const write = (line: string) => {
      lines += line;
    };
    agent = runAgent({
      url: server.url,
      token: TOKEN,
      version: 'v1.2.3',
      log: createLogger({ level: 'debug', sinks: [{ format: 'json', write }] }),
      scriptDataDir: home,
      logDir: home,
      reconnectCapMs: 200,
      env: { PATH: process.env['PATH'], HOME: home, SHELL: '/bin/sh', INHERITED: 'agent' },
    });
    await server.until('ready', () => server.received.lifecycles.includes('READY'));
  };
  const inSession = async (command: string, env = {}) => {
    const client = await sshClient(await server.tunnel());
    try {
      return (await run(client, command, { env })).stdout;
    } finally {
      client.end();
    }
  };
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

  test('reach sessions and scripts as variables and files, before the first script', async () => {
    server.manifest = {
      environmentVariables: { FROM_TEMPLATE: 'template' },
      scripts: [
        {
          id: Buffer.alloc(16, 1),
          logSourceId: Buffer.alloc(16, 2),
          runOnStart: true,
          script: 'printf "%s %s" "$API_KEY" "$(cat ~/.config/tool/key)" > "$HOME/seen"',
        },
      ],
      secrets: [
        secret('API_KEY', '', 'a$HOME\nb'),
        secret('', '~/.config/tool/key', 'of a file'),
        secret('FROM_TEMPLATE', `${home}/both`, 'over the template'),
        secret('INHERITED', '', 'over the agent'),
        secret('SENT', '', 'over the client'),
      ],
    };
    await start();
    assert.equal(readFileSync(join(home, 'seen'), 'utf8'), 'a$HOME\nb of a file');
    assert.equal(mode(join(home, '.config/tool/key')), '600');
    assert.equal(mode(join(home, '.config/tool')), '700');
    assert.equal(readFileSync(join(home, 'both'), 'utf8'), 'over the template');
    const seen = await inSession('printf "%s|" "$API_KEY" "$FROM_TEMPLATE" "$INHERITED" "$SENT"', { SENT: 'client' });
    assert.equal(seen, 'a$HOME\nb|over the template|over the agent|over the client|');
  });

  test('are fetched again when the server announces a change, for new processes', async () => {
    server.manifest = { secrets: [secret('KEY', '~/key', 'one'), secret('GONE', '~/gone', 'one')] };
    await start();
    server.manifest = { secrets: [secret('KEY', '~/key', 'two'), secret('NEW', '', 'new')] };
    assert.equal(await inSession('printf "$KEY $GONE"'), 'one one');
    (await server.tunnel('secrets')).resume();
    assert.equal(await inSession('printf "$KEY $GONE $NEW"'), 'two  new');
    assert.equal(readFileSync(join(home, 'key'), 'utf8'), 'two');
    assert.equal(readFileSync(join(home, 'gone'), 'utf8'), 'one', 'the agent deletes no file');
    assert.equal(server.dials.length, 1);
  });

  test('of a change that is announced while a new connection fetches older ones are the last', async () => {
    server.manifest = { secrets: [secret('KEY', '~/key', 'one')] };
    const { getManifest } = server.handlers;
    const held = Promise.withResolvers<void>();
    const fetched = Promise.withResolvers<void>();
    let count = 0;
    server.handlers.getManifest = async (...args) => {
      count += 1;
      const isSecond = count === 2;
      const manifest = await getManifest!(...args);
      if (isSecond) {
        fetched.resolve();
        await held.promise;
      }
      return manifest;
    };
    await start();
    server.cut();
    await fetched.promise;
    server.manifest = { secrets: [secret('KEY', '~/key', 'two')] };
    const refreshed = server.tunnel('secrets');
    // the agent serves tunnels in the order of their requests, and would have fetched the new one by now
    for (let n = 0; n < 3; n += 1) (await server.tunnel('ping')).destroy();
    held.resolve();
    (await refreshed).resume();
    await server.until('both were applied', () => count === 3);
    await server.until('the start is reported', () => server.received.startups.length === 2);
    assert.equal(await inSession('printf "$KEY $(cat ~/key)"'), 'two two');
  });

  test('replace the content of existing files, and keep their permissions and links', async () => {
    writeFileSync(join(home, 'open'), 'a longer text than the secret');
    chmodSync(join(home, 'open'), 0o644);
    writeFileSync(join(home, 'target'), 'x');
    symlinkSync('target', join(home, 'link'));
    server.manifest = { secrets: [secret('', '~/open', 'new'), secret('', '~/link', 'linked')] };
    await start();
    assert.deepEqual([readFileSync(join(home, 'open'), 'utf8'), mode(join(home, 'open'))], ['new', '644']);
    assert.equal(readFileSync(join(home, 'target'), 'utf8'), 'linked');
  });

  test('that cannot be written are named in the log, and the others are written', async () => {
    mkdirSync(join(home, 'directory'));
    writeFileSync(join(home, 'file'), '');
    assert.equal(spawnSync('mkfifo', [join(home, 'pipe')]).status, 0);
    server.manifest = {
      secrets: [
        secret('', '~/directory', 'hunter2'),
        secret('', '~/file/below', 'hunter2'),
        secret('', '~/pipe', 'hunter2'),
        secret('', '~/x/../twice', 'first'),
        secret('', `${home}/twice`, 'second'),
        secret('', '~/last', 'hunter2'),
      ],
    };
    await start();
    for (const name of ['directory', 'file/below', 'pipe', 'twice'])
      assert.ok(lines.includes(JSON.stringify(join(home, name))), name);
    assert.equal(readFileSync(join(home, 'twice'), 'utf8'), 'second');
    assert.ok(existsSync(join(home, 'last')));
    assert.ok(!lines.includes('hunter2'));
  });
});
