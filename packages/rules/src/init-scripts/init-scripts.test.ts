import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { filledScript, initScripts } from '../init-scripts.ts';

// By full path, because the scripts get their own PATH.
const found = (name: string) => ['/usr/bin', '/bin'].map((dir) => join(dir, name)).find((file) => existsSync(file));
const without = (name: string) => (found(name) ? false : `no ${name} on this machine`);
/** The strictest installed shells. */
const SHELLS: [name: string, args: string[]][] = [
  ['dash', []],
  ['busybox', ['sh']],
];
const SHELL = found('dash') ?? '/bin/sh';

const AGENT = `#!/bin/sh
if [ "$1" = --version ]; then echo "Coder v2.0"; exit 0; fi
echo "args=$* auth=$CODER_AGENT_AUTH url=$CODER_AGENT_URL token=\${CODER_AGENT_TOKEN:-none}" > "$OUT"
`;

/** Runs a command and returns its output and exit status. */
const run = (file: string, args: string[], env: Record<string, string>) =>
  new Promise<{ code: number; output: string }>((resolve) => {
    execFile(file, args, { env, timeout: 20_000 }, (err, out, errOut) =>
      resolve({ code: err ? Number(err.code ?? -1) : 0, output: out + errOut }),
    );
  });

describe('init scripts', () => {
  let dir: string;
  let base: string;
  let failures = 0;
  let body = AGENT;
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(req.url ?? '');
    if (failures-- > 0) res.writeHead(503).end();
    else res.end(body);
  });

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'init-'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  after(async () => {
    server.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** Creates a PATH with only these programs, and a `sleep` that records its argument. */
  async function path(name: string, tools: string[]): Promise<string> {
    const bin = join(dir, name);
    await mkdir(bin);
    for (const tool of [...tools, 'mktemp', 'mkdir', 'chmod', 'head', 'id']) {
      for (const from of ['/usr/bin', '/bin']) {
        if (await readFile(join(from, tool)).then(Boolean, () => false)) {
          await symlink(join(from, tool), join(bin, tool));
          break;
        }
      }
    }
    await writeFile(join(bin, 'sleep'), `#!/bin/sh\necho "slept $1" >> "${join(dir, 'sleeps')}"\n`);
    await chmod(join(bin, 'sleep'), 0o755);
    return bin;
  }

  const script = async (name: string) => {
    const file = join(dir, `${name}.sh`);
    await writeFile(file, filledScript(initScripts().linux_amd64, { url: base, auth: 'token' }));
    return file;
  };

  test('are valid shell and name their platform', async () => {
    for (const [platform, text] of Object.entries(initScripts())) {
      const [os, arch] = platform.split('_');
      const filled = filledScript(text, { url: base, auth: 'token' });
      assert.ok(filled.includes(`"${base}bin/coder-${os}-${arch}${os === 'windows' ? '.exe' : ''}"`), platform);
      if (os === 'windows') continue;
      const file = join(dir, `${platform}.sh`);
      await writeFile(file, text);
      assert.deepEqual(await run('/bin/sh', ['-n', file], {}), { code: 0, output: '' });
    }
  });

  test('download, check and start the agent, retrying every 30 seconds', async () => {
    failures = 2;
    const bin = await path('curl-bin', ['curl']);
    const out = join(dir, 'out');
    const ended = await run(SHELL, [await script('ok')], { PATH: bin, OUT: out, BINARY_DIR: join(dir, 'got') });
    assert.equal(ended.code, 0, ended.output);
    assert.equal(await readFile(out, 'utf8'), `args=agent auth=token url=${base} token=none\n`);
    assert.deepEqual(asked, Array(3).fill('/bin/coder-linux-amd64'));
    assert.equal(await readFile(join(dir, 'sleeps'), 'utf8'), 'slept 30\nslept 30\n');
  });

  for (const [shell, args] of SHELLS) {
    for (const tool of ['curl', 'wget', 'busybox']) {
      test(`work under ${shell} with ${tool} alone`, { skip: without(shell) || without(tool) }, async () => {
        failures = 1;
        const name = `${shell}-${tool}`;
        const out = join(dir, `out-${name}`);
        const env = { PATH: await path(`${name}-bin`, [tool]), OUT: out };
        const ended = await run(found(shell)!, [...args, await script(name)], env);
        assert.equal(ended.code, 0, ended.output);
        assert.match(ended.output, /trying again in 30 seconds/);
        assert.match(await readFile(out, 'utf8'), /^args=agent /);
      });
    }
  }

  test('pass shellcheck without findings', { skip: without('shellcheck') }, async () => {
    for (const [platform, text] of Object.entries(initScripts())) {
      if (platform.startsWith('windows')) continue;
      const file = join(dir, `${platform}-lint.sh`);
      await writeFile(file, filledScript(text, { url: base, auth: 'token' }));
      assert.deepEqual(await run(found('shellcheck')!, ['--shell=sh', file], {}), { code: 0, output: '' }, platform);
    }
  });

  test('exit with 127 without a downloader and with 2 for another program, after waiting a day', async () => {
    await rm(join(dir, 'sleeps'), { force: true });
    const none = await run(SHELL, [await script('none')], { PATH: await path('no-bin', []) });
    assert.equal(none.code, 127);
    assert.match(none.output, /needs curl, wget or busybox/);
    body = '#!/bin/sh\necho something else\n';
    const other = await run(SHELL, [await script('other')], { PATH: await path('other-bin', ['curl']) });
    assert.equal(other.code, 2);
    assert.match(other.output, /is not coder: something else/);
    assert.equal(await readFile(join(dir, 'sleeps'), 'utf8'), 'slept 86400\nslept 86400\n');
  });
});
