import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeZip } from '@ropewalk/server/app/evaluate/zip';
import { startGrpcTraceReceiver } from '@ropewalk/server/tracing/testing';
import { startDaemon } from './daemon-process.ts';
import { coder, ensureExecutable, eventually, FIRST_USER, startCoderServer } from './harness.ts';

test('each part of the executable starts from its code cache', async () => {
  const program = await ensureExecutable();
  const commands = [
    'version',
    'agent',
    'operator start',
    'provisioner start',
    'server',
    'server migrate',
    'reset-password',
  ];
  for (const words of commands) {
    const { stderr } = spawnSync(program, [...words.split(' '), '--no-such-flag'], {
      encoding: 'utf8',
      env: { NODE_DEBUG: 'coder' },
    });
    assert.equal(stderr, 'error: Unknown flag: --no-such-flag\n', words);
  }
});

test('the single executable is server, database, daemon, runner, agent and command', { timeout: 300_000 }, async () => {
  // outside the checkout in a folder that everybody can access, like an installed program
  const dir = mkdtempSync(join(tmpdir(), 'platform-installed-'));
  chmodSync(dir, 0o755);
  const program = [join(dir, 'coder')];
  copyFileSync(await ensureExecutable(), program[0]!);
  const traces = await startGrpcTraceReceiver();
  const server = await startCoderServer({
    program,
    bundled: true,
    env: {
      CODER_TRACE_ENABLE: 'true',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_ENDPOINT: traces.url,
      OTEL_BSP_SCHEDULE_DELAY: '500',
    },
  });
  try {
    const run = async (...args: string[]) => {
      const done = await coder(args, { env: server.env, cwd: dir, program });
      assert.equal(
        done.code,
        0,
        `coder ${args.join(' ')}\n${done.stdout}${done.stderr}\n${server.log().slice(-3_000)}`,
      );
      return done.stdout + done.stderr;
    };
    await run('login', server.url, ...FIRST_USER);
    await run('templates', 'init', '--id', 'local');
    await run('templates', 'push', 'local', '-d', './local', '-y');
    await run('create', 'dev', '--template', 'local', '-y');
    assert.match(await run('ssh', 'dev', '--', 'uname', '-a'), /Linux/);
    // a terminal needs the library that the executable contains and unpacks
    assert.match(await run('ssh', 'dev', '--', 'tty || true'), /not a tty/);
    assert.equal((await coder(['ssh', 'dev', '--', 'exit', '9'], { env: server.env, program })).code, 9);
    assert.match(await run('ping', 'dev', '-n', '1'), /^pong from dev in/);
    assert.match(await run('ssh', 'dev', '--', 'coder version; echo $GIT_SSH_COMMAND'), /Coder v[\s\S]* gitssh --$/m);
    // a part that the server loads only on demand
    await eventually('a trace arrives over gRPC', () => traces.spans.length > 0);
    // the executable also contains the dashboard
    const page = await fetch(`${server.url}/workspaces`, { headers: { Accept: 'text/html' } });
    const [, script] = /src="(\/assets\/[^"]+\.js)"/.exec(await page.text())!;
    const loaded = await fetch(server.url + script!);
    assert.equal(loaded.status, 200);
    assert.match(loaded.headers.get('content-type')!, /^text\/javascript/);
    assert.match(loaded.headers.get('content-encoding')!, /^(br|gzip)$/);
    // and it serves its own installer and itself
    const installed = spawnSync('sh', ['-c', `curl -fsSL ${server.url}/install.sh | sh -s -- --prefix ${dir}/new`], {
      encoding: 'utf8',
    });
    assert.equal(installed.status, 0, installed.stderr);
    // without what only servers need
    const slim = `${dir}/new/bin/coder`;
    assert.ok(statSync(slim).size < 0.85 * statSync(program[0]!).size, String(statSync(slim).size));
    const of = (...args: string[]) => coder(args, { env: server.env, program: [slim] });
    assert.match((await of('version')).stdout, /^Coder v.*\nSlim build of Coder, without the server\n$/);
    assert.match((await of('list')).stdout, /admin\/dev/);
    for (const words of ['server', 'provisioner start', 'operator start']) {
      const { code, stderr } = await of(...words.split(' '));
      assert.equal(code, 1, words);
      assert.match(stderr, /^error: This executable has only the agent and the commands\. .*sh install\.sh --from URL/);
    }
    // a thread unpacks archives, and the executable contains its script
    const archive = makeZip([{ path: 'main.tf', data: Buffer.from('# nothing'), mode: 0o644 }]);
    const upload = await fetch(`${server.url}/api/v2/files`, {
      method: 'POST',
      headers: {
        'coder-session-token': (await run('tokens', 'create')).trim(),
        'content-type': 'application/zip',
      },
      body: new Uint8Array(archive),
    });
    assert.equal(upload.status, 201, await upload.text());
    // a daemon with a key replaces its program by itself
    const key = /^\S{40,}$/m.exec(await run('provisioner', 'keys', 'create', 'outside'))?.[0];
    const daemon = await startDaemon(server, { name: 'outside', program, env: { CODER_PROVISIONER_DAEMON_KEY: key } });
    await daemon.kill();
    await run('delete', 'dev', '-y');
    assert.match(await run('version'), /^Coder v.*\nFull build of Coder, with the server\n$/);
  } finally {
    await server.stop();
    traces.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
