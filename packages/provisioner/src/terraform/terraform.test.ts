import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { silentLogger } from '@ropewalk/kit';
import { MetadataSchema, PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { zipSync } from 'fflate';
import tar from 'tar-stream';
import { tarOf } from '../testing/harness.ts';
import { unpackArchive } from './archive.ts';
import { findTerraform } from './binary.ts';
import { inheritedEnv, withReadableConfig } from './env.ts';
import { findEngines } from './find-engines.ts';
import { installTerraform, platformKey } from './install.ts';
import { hashed, providerEnv } from './provider-env.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tf-'));
});
after(() => rm(dir, { recursive: true, force: true }));

test('unpacks the files of an archive, and writes nothing outside the directory', async () => {
  const target = join(dir, 'good');
  await unpackArchive(await tarOf({ 'main.tf': 'a', 'sub/x.sh': 'b' }), target);
  assert.equal(await readFile(join(target, 'sub/x.sh'), 'utf8'), 'b');
  assert.equal((await stat(target)).mode & 0o777, 0o700);
  for (const name of ['../out', '/abs', 'a/../../out', 'a\\..\\out'])
    await assert.rejects(unpackArchive(await tarOf({ [name]: 'x' }), join(dir, 'bad')), /leaves the directory/);
  await assert.rejects(unpackArchive(await tarOf({ big: Buffer.alloc((10 << 20) + 1) }), join(dir, 'big')), /larger/);
  const cut = (await tarOf({ 'main.tf': 'x'.repeat(5000) })).subarray(0, 2000);
  await assert.rejects(unpackArchive(cut, join(dir, 'cut')), /Cannot unpack/);
  const pack = tar.pack();
  pack.entry({ name: 'link', type: 'symlink', linkname: '/etc/passwd' });
  pack.entry({ name: 'zero', mode: 0o040 }, 'z');
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack as AsyncIterable<Buffer>) parts.push(part);
  assert.deepEqual(await unpackArchive(Buffer.concat(parts), join(dir, 'links')), ['link']);
  assert.deepEqual(await readdir(join(dir, 'links')), ['zero']);
  assert.equal((await stat(join(dir, 'links/zero'))).mode & 0o777, 0o640);
});

test('terraform inherits neither our variables nor secrets, but does inherit cloud credentials', () => {
  const env = inheritedEnv(
    {
      PATH: '/bin',
      CODER_SESSION_TOKEN: 'x',
      PGPASSWORD: 'x',
      TF_LOG: 'INFO',
      AWS_SECRET_ACCESS_KEY: 'cloud',
      OTHER: 'canary-secret',
      TF_REATTACH_PROVIDERS: '{}',
      HTTPS_PROXY: 'http://proxy',
    },
    ['canary-secret', ''],
  );
  assert.deepEqual(env, { PATH: '/bin', TF_LOG: 'INFO', AWS_SECRET_ACCESS_KEY: 'cloud', HTTPS_PROXY: 'http://proxy' });
});

test('ignores a TF_CLI_CONFIG_FILE that cannot be read, and logs that once', async () => {
  const warnings: unknown[] = [];
  const log = { warn: (...line: unknown[]) => void warnings.push(line) };
  const file = join(dir, 'readable.rc');
  await writeFile(file, '');
  const env = { PATH: '/bin', TF_CLI_CONFIG_FILE: file };
  assert.deepEqual(withReadableConfig(env, log), env);
  assert.deepEqual(withReadableConfig({ PATH: '/bin' }, log), { PATH: '/bin' });
  assert.equal(warnings.length, 0);
  assert.deepEqual(withReadableConfig({ ...env, TF_CLI_CONFIG_FILE: join(dir, 'absent.rc') }, log), { PATH: '/bin' });
  assert.equal(warnings.length, 1);
  assert.match(JSON.stringify(warnings), /absent\.rc.*ENOENT/);
});

test("the provider's variables are upstream's", () => {
  const env = providerEnv({
    metadata: create(MetadataSchema, {
      coderUrl: 'https://x',
      workspaceTransition: WorkspaceTransition.DESTROY,
      workspaceOwnerRbacRoles: [{ name: 'owner', orgId: '' }],
      prebuiltWorkspaceBuildStage: PrebuiltWorkspaceBuildStage.CLAIM,
      runningAgentAuthTokens: [{ agentId: 'a', token: 't' }],
    }),
    parameters: [{ $typeName: 'provisioner.RichParameterValue', name: 'my param', value: 'v' }],
    externalAuth: [{ $typeName: 'provisioner.ExternalAuthProvider', id: 'github', accessToken: 'gh' }],
    initScripts: { linux_amd64: '#!' },
  });
  assert.equal(env['CODER_WORKSPACE_TRANSITION'], 'destroy');
  assert.equal(env['CODER_PARAMETER_d12c3ed127187f745cbdfe127505f78f87f642913dd2977b2b0868409903b809'], 'v');
  assert.equal(env['CODER_WORKSPACE_OWNER_RBAC_ROLES'], '[{"name":"owner"}]');
  assert.equal(env['CODER_WORKSPACE_OWNER_GROUPS'], 'null');
  assert.equal(env[`CODER_RUNNING_WORKSPACE_AGENT_TOKEN_${hashed('')}`], 't');
  assert.equal(env['CODER_WORKSPACE_IS_PREBUILD_CLAIM'], 'true');
  assert.equal(env['CODER_GIT_AUTH_ACCESS_TOKEN_github'], 'gh');
  assert.equal(env['CODER_AGENT_SCRIPT_linux_amd64'], '#!');
});

test('finds terraform by path or on PATH, and otherwise says what to do', async () => {
  const found = await findTerraform({ env: process.env, log: silentLogger });
  assert.match(found.version, /^1\./);
  const none = findTerraform({ env: { PATH: dir }, log: silentLogger });
  await assert.rejects(none, /terraform is not on PATH.*Install terraform 1\.1\.0 or newer/);
  const old = join(dir, 'old-terraform');
  await writeFile(old, '#!/bin/sh\necho Terraform v1.0.11\n', { mode: 0o755 });
  await assert.rejects(findTerraform({ path: old, env: process.env, log: silentLogger }), /older than 1\.1\.0/);
});

test('installs terraform once, and only if its checksum is in our table', async () => {
  const program = '#!/bin/sh\necho Terraform v9.9.9\n';
  const zip = Buffer.from(zipSync({ terraform: Buffer.from(program), 'LICENSE.txt': Buffer.from('x') }));
  let content: Buffer = zip;
  let requests = 0;
  const server = createServer((req, res) => {
    requests++;
    assert.equal(req.url, `/terraform/9.9.9/terraform_9.9.9_${platformKey()}.zip`);
    res.writeHead(200, { 'Content-Length': zip.length });
    if (content.length < zip.length) res.write(content, () => res.destroy());
    else res.end(content);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cacheDir = join(dir, 'install');
  const options = {
    cacheDir,
    log: silentLogger,
    env: process.env,
    version: '9.9.9',
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    sums: { '9.9.9': { [platformKey()]: createHash('sha256').update(zip).digest('hex') } },
  };
  try {
    content = zip.subarray(0, 40);
    await assert.rejects(installTerraform(options), /Could not download/);
    content = Buffer.from(zip);
    content[content.length - 1]! ^= 1;
    await assert.rejects(installTerraform(options), /Cannot install terraform 9\.9\.9: The SHA-256 of /);
    assert.equal(existsSync(join(cacheDir, 'terraform')), false);
    content = zip;
    // a shim on PATH that cannot run
    const shims = join(dir, 'shims');
    await mkdir(shims);
    await writeFile(join(shims, 'terraform'), '#!/bin/sh\nexit 126\n', { mode: 0o755 });
    const env = { PATH: `${shims}:${process.env['PATH']}` };
    const elsewhere = { ...options, cacheDir: join(dir, 'instead') };
    // one on PATH that is older than ours: jobs that need it download ours
    const later = { ...options, cacheDir: join(dir, 'later') };
    const [first, second] = await findEngines(
      { paths: [], named: [] },
      { env: process.env, log: silentLogger, install: later },
    );
    assert.match(first!.version, /^1\./);
    assert.deepEqual([second?.version, existsSync(second!.path)], ['9.9.9', false]);
    await second!.install!(AbortSignal.timeout(10_000));
    assert.equal(await readFile(second!.path, 'utf8'), program);
    assert.equal((await findTerraform({ env, log: silentLogger, install: elsewhere })).version, '9.9.9');
    await assert.rejects(
      findTerraform({ path: join(shims, 'terraform'), env, log: silentLogger, install: elsewhere }),
      /does not answer/,
    );
    requests = 0;
    const both = await Promise.all([installTerraform(options), installTerraform(options)]);
    assert.deepEqual(
      both.map(({ version }) => version),
      ['9.9.9', '9.9.9'],
    );
    assert.equal(requests, 1);
    assert.deepEqual(await readdir(cacheDir), ['terraform']);
    await assert.rejects(installTerraform({ ...options, version: '9.9.8' }), /its checksum is unknown/);
  } finally {
    server.close();
  }
});
