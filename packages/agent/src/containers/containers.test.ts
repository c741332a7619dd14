import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import {
  CreateSubAgentRequest_App_OpenIn,
  CreateSubAgentRequest_App_SharingLevel,
  CreateSubAgentRequest_DisplayApp,
} from '@ropewalk/wire/proto/agent';
import { customizationsOf, safeName } from './customizations.ts';
import { discover } from './discovery.ts';
import { listContainers, toContainer } from './docker.ts';

test('reads customizations, the most specific of which is the last', () => {
  const found = customizationsOf({
    configuration: { customizations: { coder: { name: 'api', ignore: false, autoStart: true } } },
    mergedConfiguration: {
      customizations: {
        coder: [
          { displayApps: { vscode: false, web_terminal: false }, apps: [{ slug: 'docs', url: 'http://localhost:1' }] },
          {
            displayApps: { web_terminal: true, vscode_insiders: true, port_forwarding_helper: 'no' },
            apps: [
              {
                slug: 'docs',
                displayName: 'Docs',
                url: 'http://localhost:2',
                share: 'public',
                openIn: 'tab',
                order: 3,
                subdomain: true,
                healthCheck: { url: 'http://localhost:2/ok', interval: 5, threshold: 2 },
              },
            ],
          },
        ],
      },
    },
  });
  assert.deepEqual([found.name, found.ignore, found.autoStart], ['api', false, true]);
  assert.deepEqual(
    found.displayApps.map((app) => CreateSubAgentRequest_DisplayApp[app]),
    ['VSCODE_INSIDERS', 'WEB_TERMINAL', 'SSH_HELPER', 'PORT_FORWARDING_HELPER'],
  );
  assert.deepEqual(found.apps, [
    {
      slug: 'docs',
      displayName: 'Docs',
      url: 'http://localhost:2',
      share: CreateSubAgentRequest_App_SharingLevel.PUBLIC,
      openIn: CreateSubAgentRequest_App_OpenIn.TAB,
      order: 3,
      subdomain: true,
      healthcheck: { url: 'http://localhost:2/ok', interval: 5, threshold: 2 },
    },
  ]);
});

test('ignores customizations of the wrong form', () => {
  for (const coder of [undefined, null, 'text', [], { name: 'not a name', apps: 'none', displayApps: [] }]) {
    const { name, ignore, apps, displayApps } = customizationsOf({ configuration: { customizations: { coder } } });
    assert.deepEqual([name, ignore, apps, displayApps.length], ['', false, [], 4]);
  }
});

test('ignores sharing levels that are names of JavaScript', () => {
  for (const share of ['constructor', 'toString', '__proto__']) {
    const coder = { apps: [{ slug: 'docs', share }] };
    const { apps } = customizationsOf({ configuration: { customizations: { coder } } });
    assert.deepEqual(apps, [{ slug: 'docs' }], share);
  }
});

test('makes names of agents from names of folders', () => {
  const names = ['My Project_2', '--', 'Straße', `${'x'.repeat(55)}-y`, '.config'].map(safeName);
  assert.deepEqual(names, ['my-project-2', 'devcontainer', 'stra-e', 'x'.repeat(55), 'config']);
});

test('reads containers as "docker inspect" prints them', () => {
  const container = toContainer({
    Id: 'c0ffee',
    Name: '/eager_turing',
    Created: '2026-11-01T10:00:00.5Z',
    State: { Status: 'running', Running: true },
    Config: { Image: 'example/base:1', Labels: { a: 'b' } },
    Mounts: [{ Source: '/home/coder/app', Destination: '/workspaces/app' }, { Destination: '/tmp' }],
    NetworkSettings: {
      Ports: {
        '8080/tcp': [
          { HostIp: '0.0.0.0', HostPort: '18080' },
          { HostIp: '::', HostPort: '18080' },
        ],
        '53/udp': null,
      },
    },
  });
  assert.deepEqual(container, {
    id: 'c0ffee',
    name: 'eager_turing',
    created_at: '2026-11-01T10:00:00.5Z',
    image: 'example/base:1',
    labels: { a: 'b' },
    running: true,
    status: 'running',
    ports: [
      { port: 8080, network: 'tcp', host_ip: '0.0.0.0', host_port: 18080 },
      { port: 8080, network: 'tcp', host_ip: '::', host_port: 18080 },
      { port: 53, network: 'udp', host_ip: '', host_port: 0 },
    ],
    volumes: { '/home/coder/app': '/workspaces/app' },
  });
  assert.equal(toContainer({ Id: 'bare' }).running, false);
});

test('says that Docker is missing, and what Docker says', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-docker-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const around = { env: { PATH: dir }, cwd: dir };
  await assert.rejects(listContainers(around), /Docker is not installed/);
  writeFileSync(join(dir, 'docker'), '#!/bin/sh\necho "Cannot connect to the Docker daemon" >&2\nexit 1\n', {
    mode: 0o755,
  });
  await assert.rejects(listContainers(around), /"docker ps" failed: Cannot connect to the Docker daemon/);
});

test('discovers dev containers in Git repositories one level deep, except what Git ignores', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-discovery-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const write = (path: string, text = '{}') => {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  };
  for (const path of [
    'app/.devcontainer/devcontainer.json',
    'app/.devcontainer/gpu/devcontainer.json',
    'app/services/web/.devcontainer.json',
    'app/node_modules/x/.devcontainer.json',
    'app/devcontainer.json',
    'plain/.devcontainer.json',
    'deep/below/.devcontainer.json',
  ])
    write(path);
  write('app/.gitignore', 'node_modules\n');
  for (const repository of ['app', 'deep/below']) execFileSync('git', ['init', '--quiet', join(dir, repository)]);
  const around = { env: process.env, cwd: dir };
  const found = (await discover(dir, around)).map(({ workspaceFolder, configPath }) => [
    workspaceFolder.slice(dir.length),
    configPath.slice(dir.length),
  ]);
  assert.deepEqual(found.sort(), [
    ['/app', '/app/.devcontainer/devcontainer.json'],
    ['/app', '/app/.devcontainer/gpu/devcontainer.json'],
    ['/app/services/web', '/app/services/web/.devcontainer.json'],
  ]);
  assert.equal((await discover(join(dir, 'app'), around)).length, 3, 'the directory is a repository itself');
  assert.deepEqual(await discover(dir, { ...around, env: { PATH: '' } }), [], 'without Git');
});

test('runs no program that a repository’s configuration names', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-discovery-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const git = (...args: string[]) => execFileSync('git', ['-C', dir, ...args], { stdio: 'ignore' });
  git('init', '--quiet');
  writeFileSync(join(dir, '.devcontainer.json'), '{}');
  const trap = (name: string) => {
    writeFileSync(join(dir, `${name}.sh`), `#!/bin/sh\ntouch '${join(dir, name)}'\n`, { mode: 0o755 });
    return join(dir, `${name}.sh`);
  };
  git('config', 'core.fsmonitor', trap('monitor'));
  // a sparse index makes Git read trees, and it fetches those that are missing
  mkdirSync(join(dir, 'sub'));
  writeFileSync(join(dir, 'sub/.devcontainer.json'), '{}');
  git('-c', 'core.fsmonitor=false', 'add', '.');
  const author = ['-c', 'user.name=x', '-c', 'user.email=x@example.com'];
  git('-c', 'core.fsmonitor=false', ...author, 'commit', '--quiet', '-m', 'x');
  git('-c', 'core.fsmonitor=false', 'sparse-checkout', 'set', '--sparse-index', 'none');
  const tree = execFileSync('git', ['-C', dir, 'rev-parse', 'HEAD:sub'], { encoding: 'utf8' }).trim();
  rmSync(join(dir, '.git/objects', tree.slice(0, 2), tree.slice(2)));
  for (const [name, value] of [
    ['core.repositoryFormatVersion', '1'],
    ['extensions.partialClone', 'origin'],
    ['remote.origin.url', dir],
    ['remote.origin.promisor', 'true'],
    ['remote.origin.uploadpack', trap('upload-pack')],
  ] as const)
    git('config', name, value);
  await discover(dir, { env: process.env, cwd: dir });
  assert.deepEqual(
    ['monitor', 'upload-pack'].filter((name) => existsSync(join(dir, name))),
    [],
  );
});
