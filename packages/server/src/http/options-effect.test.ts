import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  APIKey,
  AppearanceConfig,
  AuthMethods,
  HealthcheckReport,
  SSHConfigResponse,
  UpdateWorkspaceProxyResponse,
} from '@ropewalk/contract';
import {
  ADMIN,
  createTestTemplate,
  eventually,
  failTaken,
  finishImport,
  insertPerson,
  logIn,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { startTestWorkspace } from '@ropewalk/testkit/workspace';
import { FrozenVersionSchema } from '@ropewalk/wire/proto/platform_provisioner';
import { keepFrozen } from '../app/job/frozen.ts';
import { storeModuleArchive } from '../app/job/module-files.ts';
import { endUnclaimedJobs } from '../background/unclaimed-jobs.ts';
import { startTestApp } from './apps/testing/app.ts';
import { ask } from './apps/testing/ask.ts';

// Options that no other test exercises. Each case observes one thing on a server without the option and on one with it.

type Env = Record<string, string>;

interface Case {
  what: string;
  /** Default: the options of the server that most cases share. */
  without?: Env;
  with: Env;
  observe(server: TestServer): Promise<unknown>;
  /** What is observed without the option, then with it. */
  expected: [unknown, unknown];
}

/** The database of a busy machine answers later than the default threshold of 15 ms. */
const SHARED: Env = { CODER_HEALTH_CHECK_THRESHOLD_DATABASE: '10m' };
const HOUR = 3_600;

let shared: TestServer;
/** Answers each request with 404 and keeps the paths. */
const mirror = createServer((request, response) => {
  requested.push(request.url!);
  response.writeHead(404).end();
});
const requested: string[] = [];
let mirrorUrl: string;
before(async () => {
  shared = await startTestServer({ env: SHARED });
  mirror.listen(0, '127.0.0.1');
  await once(mirror, 'listening');
  mirrorUrl = `http://127.0.0.1:${(mirror.address() as AddressInfo).port}`;
});
after(async () => {
  await shared.stop();
  mirror.closeAllConnections();
  mirror.close();
});

/** A workspace without an agent; no job waits afterwards. */
async function idleWorkspace(server: TestServer, name: string): Promise<string> {
  const template = await createTestTemplate(server, `of-${name}`);
  const made = await server.api<{ id: string }>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await failTaken(server, await takeJob(server), 'enough');
  return made.body.id;
}

/** The statuses of a public path app of a member: for a stranger without a session, and for the first user, an owner. */
async function pathApp(server: TestServer): Promise<{ stranger: number; owner: number }> {
  const name = `a${crypto.randomUUID().slice(0, 8)}`;
  const member = await insertPerson(server, name);
  const app = await startTestApp();
  const apps = [{ slug: 'web', url: `http://localhost:${app.port}`, sharingLevel: 2 }];
  const dev = await startTestWorkspace(server, name, { agent: { apps: apps as never }, token: member.token });
  const status = async (headers: Record<string, string>) =>
    (await ask(server.url, { path: `/@${name}/${name}.main/apps/web/`, headers })).status;
  try {
    return { stranger: await status({}), owner: await status({ 'Coder-Session-Token': server.adminToken }) };
  } finally {
    await dev.stop();
    await app.close();
  }
}

/** The seconds that a new token lasts, or the status where the server rejects it. */
async function tokenLasts(server: TestServer, by: 'owner' | 'member', seconds?: number): Promise<number> {
  const name = `t${crypto.randomUUID().slice(0, 8)}`;
  const token = by === 'owner' ? server.adminToken : (await insertPerson(server, name)).token;
  const lifetime = seconds === undefined ? {} : { lifetime: seconds * 1e9 };
  const made = await server.api('POST', '/users/me/keys/tokens', { token, body: { token_name: name, ...lifetime } });
  if (made.status !== 201) return made.status;
  return (await server.api<APIKey>('GET', `/users/me/keys/tokens/${name}`, { token })).body.lifetime_seconds;
}

const keyOf = (token: string) => token.split('-')[0]!;

async function cookieOfSignIn(server: TestServer): Promise<string> {
  const { headers } = await server.api('POST', '/users/login', {
    token: null,
    body: { email: ADMIN.email, password: ADMIN.password },
  });
  return headers.getSetCookie()[0]!.replace(/^[^;]*; /, '');
}

const appearance = async (server: TestServer) => (await server.api<AppearanceConfig>('GET', '/appearance')).body;
const LINK = { name: 'Chat', target: 'https://chat.example', icon: 'chat', location: 'navbar' };

const cases: Case[] = [
  {
    what: 'a workspace can be renamed',
    with: { CODER_ALLOW_WORKSPACE_RENAMES: 'true' },
    async observe(server) {
      const id = await idleWorkspace(server, 'before');
      return (await server.api('PATCH', `/workspaces/${id}`, { body: { name: 'after' } })).status;
    },
    expected: [400, 204],
  },
  {
    what: 'a path app is shared',
    with: { CODER_DANGEROUS_ALLOW_PATH_APP_SHARING: 'true' },
    observe: async (server) => (await pathApp(server)).stranger,
    expected: [401, 200],
  },
  {
    what: "an owner of the site opens a member's path app",
    with: { CODER_DANGEROUS_ALLOW_PATH_APP_SITE_OWNER_ACCESS: 'true' },
    observe: async (server) => (await pathApp(server)).owner,
    expected: [404, 200],
  },
  {
    what: "an owner of the site opens a shell in a member's workspace",
    with: { CODER_DISABLE_OWNER_WORKSPACE_ACCESS: 'true' },
    async observe(server) {
      const member = await insertPerson(server, `m${crypto.randomUUID().slice(0, 8)}`);
      const check = (action: string, owner_id: string) => ({
        action,
        object: { resource_type: 'workspace', owner_id },
      });
      const checks = { shell: check('ssh', member.id), stop: check('stop', member.id) };
      return (await server.api('POST', '/authcheck', { body: { checks } })).body;
    },
    expected: [
      { shell: true, stop: true },
      { shell: false, stop: true },
    ],
  },
  {
    what: 'members of an organization can share workspaces',
    with: { CODER_DISABLE_WORKSPACE_SHARING: 'true' },
    observe: async (server) => (await server.api('GET', '/organizations/default/settings/workspace-sharing')).body,
    expected: [
      { sharing_globally_disabled: false, sharing_disabled: false, shareable_workspace_owners: 'everyone' },
      { sharing_globally_disabled: true, sharing_disabled: true, shareable_workspace_owners: 'none' },
    ],
  },
  {
    what: 'path apps are switched off',
    without: { CODER_DANGEROUS_ALLOW_PATH_APP_SHARING: 'true' },
    with: { CODER_DANGEROUS_ALLOW_PATH_APP_SHARING: 'true', CODER_DISABLE_PATH_APPS: 'true' },
    observe: (server) => pathApp(server),
    expected: [
      { stranger: 200, owner: 200 },
      { stranger: 404, owner: 404 },
    ],
  },
  {
    what: 'how long a token lasts by default',
    with: { CODER_DEFAULT_TOKEN_LIFETIME: '3h' },
    observe: (server) => tokenLasts(server, 'member'),
    expected: [168 * HOUR, 3 * HOUR],
  },
  {
    what: "the longest life of a member's token",
    with: { CODER_MAX_TOKEN_LIFETIME: '2h' },
    observe: async (server) => [
      await tokenLasts(server, 'member', 2 * HOUR),
      await tokenLasts(server, 'member', 3 * HOUR),
      await tokenLasts(server, 'member'),
    ],
    expected: [
      [2 * HOUR, 3 * HOUR, 168 * HOUR],
      [2 * HOUR, 400, 2 * HOUR],
    ],
  },
  {
    what: "the longest life of an owner's token",
    with: { CODER_MAX_ADMIN_TOKEN_LIFETIME: '2h' },
    observe: async (server) => [
      await tokenLasts(server, 'owner', 2 * HOUR),
      await tokenLasts(server, 'owner', 3 * HOUR),
      await tokenLasts(server, 'member', 3 * HOUR),
    ],
    expected: [
      [2 * HOUR, 3 * HOUR, 3 * HOUR],
      [2 * HOUR, 400, 3 * HOUR],
    ],
  },
  {
    what: 'a session that is used expires later',
    with: { CODER_DISABLE_SESSION_EXPIRY_REFRESH: 'true' },
    async observe(server) {
      const { sql } = server.services;
      const token = await logIn(server, ADMIN.email, ADMIN.password);
      const expiry = async () =>
        (await sql<{ expires_at: Date }[]>`SELECT expires_at FROM api_keys WHERE id = ${keyOf(token)}`)[0]!.expires_at;
      // unused for so long that the next use counts
      await sql`UPDATE api_keys SET last_used = now() - interval '2 hours', expires_at = expires_at - interval '2 hours'
        WHERE id = ${keyOf(token)}`;
      const given = await expiry();
      assert.equal((await server.api('GET', '/users/me', { token })).status, 200);
      return (await expiry()) > given;
    },
    expected: [true, false],
  },
  {
    what: 'how long a session lasts',
    with: { CODER_SESSION_DURATION: '5h' },
    async observe(server) {
      const token = await logIn(server, ADMIN.email, ADMIN.password);
      const { body } = await server.api<APIKey>('GET', `/users/me/keys/${keyOf(token)}`, { token });
      const hours = (Date.parse(body.expires_at) - Date.parse(body.created_at)) / 1000 / HOUR;
      return [body.lifetime_seconds, Math.round(hours), /Max-Age=\d+/.exec(await cookieOfSignIn(server))?.[0]];
    },
    expected: [
      [24 * HOUR, 24, `Max-Age=${24 * HOUR}`],
      [5 * HOUR, 5, `Max-Age=${5 * HOUR}`],
    ],
  },
  {
    what: 'where the documentation is',
    with: { CODER_DOCS_URL: 'https://docs.example/' },
    observe: async (server) => (await appearance(server)).docs_url,
    expected: ['https://coder.com/docs', 'https://docs.example/'],
  },
  {
    what: 'the links of the help menu',
    with: { CODER_SUPPORT_LINKS: JSON.stringify([LINK]) },
    observe: async (server) => (await appearance(server)).support_links,
    expected: [[], [LINK]],
  },
  {
    what: 'the terms of service',
    with: { CODER_TERMS_OF_SERVICE_URL: 'https://terms.example/' },
    observe: async (server) =>
      (await server.api<AuthMethods>('GET', '/users/authmethods', { token: null })).body.terms_of_service_url,
    expected: [undefined, 'https://terms.example/'],
  },
  {
    what: 'the suffix of host names',
    with: { CODER_WORKSPACE_HOSTNAME_SUFFIX: 'dev' },
    async observe(server) {
      const ssh = await server.api<SSHConfigResponse>('GET', '/deployment/ssh');
      const agents = await server.api<{ hostname_suffix: string }>('GET', '/workspaceagents/connection');
      return [ssh.body.hostname_suffix, agents.body.hostname_suffix];
    },
    expected: [
      ['coder', 'coder'],
      ['dev', 'dev'],
    ],
  },
  {
    what: "a build runs with Terraform's debug log",
    with: { CODER_ENABLE_TERRAFORM_DEBUG_MODE: 'true' },
    async observe(server) {
      const id = await idleWorkspace(server, 'debugged');
      const body = { transition: 'start', log_level: 'debug' };
      return (await server.api('POST', `/workspaces/${id}/builds`, { body })).status;
    },
    expected: [400, 201],
  },
  {
    what: 'how long a health report is believed',
    with: { CODER_HEALTH_CHECK_REFRESH: '0s' },
    async observe(server) {
      const made = async () => (await server.api<HealthcheckReport>('GET', '/debug/health')).body.time;
      const first = await made();
      return (await made()) === first;
    },
    expected: [true, false],
  },
  {
    what: 'how soon the database must answer',
    with: { CODER_HEALTH_CHECK_THRESHOLD_DATABASE: '1ns' },
    async observe(server) {
      const { database } = (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body;
      return [database.severity, database.warnings.map(({ code }) => code)];
    },
    expected: [
      ['ok', []],
      ['warning', ['EDB02']],
    ],
  },
  {
    what: 'how long a job waits for a daemon that does not exist',
    with: { CODER_PROVISIONER_PENDING_LIMIT: '40m' },
    async observe(server) {
      const { sql } = server.services;
      const { job } = await pendingVersion(server, { tags: { zone: 'nowhere' } });
      await sql`UPDATE provisioner_jobs SET updated_at = now() - interval '35 minutes' WHERE id = ${job.id}`;
      const early = await endUnclaimedJobs(server.services);
      await sql`UPDATE provisioner_jobs SET updated_at = now() - interval '45 minutes'
        WHERE id = ${job.id} AND completed_at IS NULL`;
      return [early, await endUnclaimedJobs(server.services)];
    },
    expected: [
      [1, 0],
      [0, 1],
    ],
  },
  {
    what: 'the server stores a package of 2 MiB',
    with: { CODER_PROVISIONER_PACKAGE_LIMIT: '1' },
    observe: async (server) => {
      const data = Buffer.alloc(2 << 20);
      const fileHash = createHash('sha256').update(data).digest();
      await storeModuleArchive(server.services.sql, data, fileHash.toString('hex'));
      await pendingVersion(server);
      const job = await takeJob(server);
      const checksum = `h1:${fileHash.toString('base64')}`;
      const version = create(FrozenVersionSchema, {
        id: 'a'.repeat(64),
        platform: 'linux_amd64',
        packages: [{ address: 'host/acme/thing', version: '1.0.0', checksum, fileHash }],
      });
      const kept = keepFrozen(server.services, job, version).then(
        () => true,
        () => false,
      );
      return kept.finally(() => finishImport(server, job));
    },
    expected: [true, false],
  },
  {
    what: "the session's cookie is for HTTPS alone",
    with: { CODER_SECURE_AUTH_COOKIE: 'true' },
    observe: async (server) => /; Secure(;|$)/.test(await cookieOfSignIn(server)),
    expected: [false, true],
  },
  {
    what: "other sites send the session's cookie",
    without: { CODER_SECURE_AUTH_COOKIE: 'true' },
    with: { CODER_SECURE_AUTH_COOKIE: 'true', CODER_SAMESITE_AUTH_COOKIE: 'none' },
    observe: async (server) => /SameSite=(\w+)/.exec(await cookieOfSignIn(server))?.[1],
    expected: ['Lax', 'None'],
  },
];

for (const { what, without, with: set, observe, expected } of cases) {
  const given = Object.keys(set).filter((name) => without?.[name] !== set[name]);
  test(`${given.join()} changes: ${what}`, async () => {
    for (const [i, env] of [without, set].entries()) {
      const server = env ? await startTestServer({ env }) : shared;
      try {
        assert.deepEqual(await observe(server), expected[i], i === 0 ? 'without' : 'with');
      } finally {
        if (env) await server.stop();
      }
    }
  });
}

test('CODER_TERRAFORM_DOWNLOAD_URL changes: where the built-in daemons download Terraform', async (t) => {
  const { PATH } = process.env;
  t.after(() => {
    process.env['PATH'] = PATH;
  });
  for (const folder of ['one', 'other']) {
    // no Terraform is installed
    process.env['PATH'] = '/nonexistent';
    const env = { CODER_PROVISIONER_DAEMONS: '1', CODER_TERRAFORM_DOWNLOAD_URL: `${mirrorUrl}/${folder}/` };
    const server = await startTestServer({ env });
    process.env['PATH'] = PATH;
    try {
      const [path] = await eventually('a download begins', () => (requested.length > 0 ? requested : undefined));
      assert.match(path!, new RegExp(`^/${folder}/terraform/[\\d.]+/terraform_[\\w.]+\\.zip$`));
    } finally {
      await server.stop();
      requested.length = 0;
    }
  }
});

test('CODER_TERRAFORM_BINARY changes: which Terraform the built-in daemons run', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'terraform-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  // as root the daemons have another uid
  chmodSync(dir, 0o777);
  const path = join(dir, 'terraform');
  writeFileSync(path, `#!/bin/sh\n: >'${dir}/ran'\necho Terraform v1.9.8\n`, { mode: 0o755 });
  chmodSync(path, 0o755);
  const server = await startTestServer({ env: { CODER_PROVISIONER_DAEMONS: '1', CODER_TERRAFORM_BINARY: path } });
  try {
    await eventually('it runs', () => existsSync(join(dir, 'ran')));
  } finally {
    await server.stop();
  }
});

test('CODER_TERRAFORM_DOWNLOAD changes: which Terraform the built-in daemons download', async () => {
  const sum = createHash('sha256').update('another program').digest('hex');
  const env = {
    CODER_PROVISIONER_DAEMONS: '1',
    CODER_TERRAFORM_DOWNLOAD: `1.11.4=${mirrorUrl}/named/terraform.zip#sha256:${sum}`,
  };
  const server = await startTestServer({ env });
  try {
    const [path] = await eventually('a download begins', () => (requested.length > 0 ? requested : undefined));
    assert.equal(path, '/named/terraform.zip');
  } finally {
    await server.stop();
    requested.length = 0;
  }
});

test('CODER_PROXY_HEALTH_INTERVAL changes: how often the server checks its workspace proxies', async () => {
  const server = await startTestServer({ env: { CODER_PROXY_HEALTH_INTERVAL: '1s' } });
  let checks = 0;
  const proxy = createServer(({ url }, response) => {
    if (url === '/healthz-report') checks++;
    response.end(JSON.stringify({ errors: [], warnings: [] }));
  });
  try {
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const made = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
      body: { name: 'europe' },
    });
    const registered = await server.api('POST', '/workspaceproxies/me/register', {
      token: null,
      headers: { 'Coder-External-Proxy-Token': made.body.proxy_token },
      body: {
        access_url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
        derp_enabled: false,
        derp_only: false,
        replica_id: crypto.randomUUID(),
      },
    });
    assert.equal(registered.status, 201, JSON.stringify(registered.body));
    // the creation and the registration lead to one check each, whatever the interval is
    await eventually('it has checked several times', () => checks >= 4, 20_000);
  } finally {
    await server.stop();
    proxy.close();
  }
});
