import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { after, before, test } from 'node:test';
import type {
  DeploymentConfig,
  DeploymentSecurity,
  Entitlements,
  HealthcheckReport,
  RegionsResponse,
  Replica,
  SSHConfigResponse,
  WorkspaceProxiesResponse,
} from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { createPerson, startTestServer, startTestWorkspace, type TestServer } from '@ropewalk/testkit';
import { dialWebSocket, type WebSocketDialError } from '@ropewalk/wire/websocket';

const SECRET = 'canary-of-a-secret';
const KEY = Buffer.from('canary of an encryption key 1234').toString('base64');
let server: TestServer;
let member: { token: string };
before(async () => {
  server = await startTestServer({
    env: {
      CODER_PROVISIONER_DAEMON_PSK: SECRET,
      CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: KEY,
      CODER_SSH_HOSTNAME_PREFIX: 'dev.',
      CODER_SSH_CONFIG_OPTIONS: 'ForwardAgent=yes,User nobody',
    },
  });
  member = await createPerson(server, 'wim');
});
after(() => server.stop());

test('shows the configuration without secrets to people who may see it', async () => {
  const answer = await server.api<DeploymentConfig>('GET', '/deployment/config');
  assert.equal(answer.status, 200);
  const { config, options } = answer.body;
  assert.equal(config.session_lifetime.default_duration, 24 * 3600 * 1e9);
  assert.equal(config.config_ssh.DeploymentName, 'dev.');
  const text = JSON.stringify(answer.body);
  assert.ok(!text.includes(SECRET) && !text.includes(KEY));
  assert.ok(!text.includes('postgres://'));
  const prefix = options.find(({ flag }) => flag === 'ssh-hostname-prefix')!;
  assert.deepEqual([prefix.value, prefix.value_source, prefix.name], ['dev.', 'env', 'SSH Host Prefix']);
  const psk = options.find(({ flag }) => flag === 'provisioner-daemon-psk')!;
  assert.deepEqual([psk.value, psk.annotations], ['', { secret: 'true' }]);
  assert.equal((await server.api('GET', '/deployment/config', { token: member.token })).status, 404);
  assert.equal((await server.api('GET', '/deployment/stats', { token: member.token })).status, 404);
});

test('shows which keys encrypt how many stored secrets, but no key', async () => {
  const { sql } = server.services;
  assert.equal((await server.api('GET', '/users/me/gitsshkey', { token: member.token })).status, 200);
  const { body } = await server.api<DeploymentSecurity>('GET', '/deployment/security');
  const [key, ...others] = body.encryption.keys;
  assert.deepEqual([key!.active, others, body.encryption.unencrypted_secrets], [true, [], 0]);
  assert.ok(key!.secrets > 0);
  assert.equal(server.services.vault.fingerprints[0], key!.fingerprint);
  assert.ok(!JSON.stringify(body).includes(KEY));
  assert.deepEqual([body.tls.enabled, body.tls.certificates], [false, []]);
  await sql`UPDATE git_ssh_keys SET private_key = 'as before the key was configured'`;
  const after = (await server.api<DeploymentSecurity>('GET', '/deployment/security')).body.encryption;
  assert.deepEqual([after.keys[0]!.secrets, after.unencrypted_secrets], [0, key!.secrets]);
  assert.equal((await server.api('GET', '/deployment/security', { token: member.token })).status, 404);
});

test('answers the requests that clients send first', async () => {
  const as = { token: member.token };
  const ssh = await server.api<SSHConfigResponse>('GET', '/deployment/ssh', as);
  assert.deepEqual(ssh.body, {
    hostname_prefix: 'dev.',
    hostname_suffix: 'coder',
    ssh_config_options: { ForwardAgent: 'yes', User: 'nobody' },
  });
  const regions = await server.api<RegionsResponse>('GET', '/regions', as);
  assert.equal(regions.body.regions[0]!.path_app_url, server.accessUrl);
  for (const path of ['/experiments', '/experiments/available', '/appearance', '/entitlements', '/applications/host']) {
    assert.equal((await server.api('GET', path, as)).status, 200, path);
  }
  assert.equal((await server.api('GET', '/workspaceagents/connection', as)).status, 200);
  assert.equal((await server.api('GET', '/updatecheck', { token: null })).status, 200);
  assert.equal((await server.api('GET', '/deployment/stats')).status, 200);
});

test('checks database, access URL, WebSockets and daemons for the health report', async () => {
  const { status, body } = await server.api<HealthcheckReport>('GET', '/debug/health');
  assert.equal(status, 200);
  const tasks = body.background_tasks.items.map(({ name }) => name);
  for (const name of ['lost jobs', 'late agents', 'unclaimed jobs', 'daemon liveness', 'daemon credentials']) {
    assert.ok(tasks.includes(name), `${name} in ${tasks.join(', ')}`);
  }
  const lost = body.background_tasks.items.find(({ name }) => name === 'lost jobs')!;
  assert.deepEqual([lost.error, lost.failures, lost.period_ms], [null, 0, 5_000]);
  assert.ok(Date.parse(lost.last_run_at!) > 0);
  assert.deepEqual(
    body.replicas.items.map(({ id, relay_address, error }) => [id, relay_address, error]),
    [[server.services.replicaId, server.url, null]],
  );
  assert.equal(body.database.healthy, true);
  assert.equal(body.access_url.healthz_response, 'OK');
  assert.equal(body.websocket.code, 101, body.websocket.error ?? '');
  // no daemon runs in this test
  assert.match(body.provisioner_daemons.error!, /EPD01/);
  assert.deepEqual([body.severity, body.healthy], ['error', false]);
  const again = await server.api<HealthcheckReport>('GET', '/debug/health');
  assert.equal(again.body.time, body.time);
  const dismiss = { dismissed_healthchecks: ['ProvisionerDaemons', 'AccessURL', 'Database'] };
  assert.equal((await server.api('PUT', '/debug/health/settings', { body: dismiss })).status, 200);
  assert.deepEqual((await server.api('GET', '/debug/health/settings')).body, dismiss);
  const dismissed = await server.api<HealthcheckReport>('GET', '/debug/health');
  assert.equal(dismissed.body.time, body.time, 'the report is still cached');
  assert.deepEqual([dismissed.body.provisioner_daemons.dismissed, dismissed.body.derp.dismissed], [true, false]);
  assert.deepEqual([dismissed.body.severity, dismissed.body.healthy], ['ok', true]);
  const fresh = await server.api<HealthcheckReport>('GET', '/debug/health?force=true');
  assert.equal(fresh.body.provisioner_daemons.dismissed, true);
  assert.deepEqual([fresh.body.severity, fresh.body.healthy], ['ok', true]);
  const none = { dismissed_healthchecks: [] };
  assert.equal((await server.api('PUT', '/debug/health/settings', { body: none })).status, 200);
  const undone = await server.api<HealthcheckReport>('GET', '/debug/health');
  assert.deepEqual([undone.body.time, undone.body.severity, undone.body.healthy], [fresh.body.time, 'error', false]);
  assert.equal((await server.api('GET', '/debug/health', { token: member.token })).status, 404);
});

test('answers permission questions for every caller', async () => {
  const { sql } = server.services;
  const [admin] = await sql<{ id: string }[]>`SELECT id FROM users WHERE username = 'admin'`;
  const checks = {
    readUsers: { action: 'read', object: { resource_type: 'user' } },
    ownToken: { action: 'create', object: { resource_type: 'api_key', owner_id: 'me' } },
    readAdmin: { action: 'read', object: { resource_type: 'user', resource_id: admin!.id } },
    anyWorkspace: { action: 'create', object: { resource_type: 'workspace', owner_id: 'me', any_org: true } },
    editSite: { action: 'update', object: { resource_type: 'deployment_config' } },
  };
  const ask = async (token?: string) =>
    (await server.api<Record<string, boolean>>('POST', '/authcheck', { body: { checks }, ...(token ? { token } : {}) }))
      .body;
  assert.ok(Object.values(await ask()).every(Boolean));
  assert.deepEqual(await ask(member.token), {
    readUsers: false,
    ownToken: true,
    readAdmin: false,
    anyWorkspace: true,
    editSite: false,
  });
  const bad = { checks: { x: { action: 'read', object: { resource_type: 'workspace', resource_id: "' OR 1=1" } } } };
  assert.equal((await server.api('POST', '/authcheck', { body: bad })).status, 400);
  const newer = {
    checks: {
      // upstream's dashboard asks these with every page since 2.29, and shows nothing without an answer
      viewAnyAIProvider: { action: 'read', object: { resource_type: 'ai_provider', any_org: true } },
      shareWorkspace: { action: 'share', object: { resource_type: 'workspace', owner_id: 'me' } },
      byId: { action: 'read', object: { resource_type: 'chat', resource_id: admin!.id } },
      inherited: { action: 'read', object: { resource_type: 'constructor' } },
      readUsers: checks.readUsers,
    },
  };
  assert.deepEqual((await server.api('POST', '/authcheck', { body: newer })).body, {
    viewAnyAIProvider: false,
    shareWorkspace: true,
    byId: false,
    inherited: false,
    readUsers: true,
  });
  const untyped = { checks: { x: { action: 'read', object: { resource_type: '' } } } };
  assert.equal((await server.api('POST', '/authcheck', { body: untyped })).status, 400);
});

test('names this server as the primary region and the only replica', async () => {
  const { regions } = (await server.api<RegionsResponse>('GET', '/regions')).body;
  const proxies = (await server.api<WorkspaceProxiesResponse>('GET', '/workspaceproxies')).body.regions;
  assert.deepEqual(
    proxies.map(({ id, name, path_app_url, status }) => [id, name, path_app_url, status?.status]),
    [[regions[0]!.id, 'primary', server.accessUrl, 'ok']],
  );
  // upstream's dashboard has it in the bar of every page
  const icon = await fetch(server.url + regions[0]!.icon_url);
  assert.match(icon.headers.get('content-type') ?? '', /^image\//);
  const replicas = (await server.api<Replica[]>('GET', '/replicas')).body;
  assert.deepEqual(
    replicas.map(({ hostname: name, error }) => [name, error]),
    [[hostname(), '']],
  );
  assert.ok(replicas[0]!.database_latency > 0);
  assert.deepEqual((await server.api('GET', '/licenses')).body, []);
  assert.equal((await server.api('GET', '/replicas', { token: member.token })).status, 404);
});

test('entitles every feature, and enables only those that exist', async () => {
  const { features, has_license: licensed } = (await server.api<Entitlements>('GET', '/entitlements')).body;
  // upstream's dashboard hides every feature without it
  assert.equal(licensed, true);
  assert.deepEqual([...new Set(Object.values(features).map(({ entitlement }) => entitlement))], ['entitled']);
  const enabled = Object.keys(features).filter((name) => features[name]!.enabled);
  assert.deepEqual(enabled.sort(), [
    'access_control',
    'advanced_template_scheduling',
    'appearance',
    'audit_log',
    'connection_log',
    'control_shared_ports',
    'custom_roles',
    'external_provisioner_daemons',
    'external_token_encryption',
    'multiple_external_auth',
    'multiple_organizations',
    'service_accounts',
    'template_rbac',
    'user_role_management',
    'workspace_batch_actions',
    'workspace_external_agent',
    'workspace_prebuilds',
    'workspace_proxy',
  ]);
});

test('reports the experiments whose functions are always on, and logs each configured one without effect', async () => {
  const lines: string[] = [];
  const log = createLogger({ level: 'warn', sinks: [{ format: 'json', write: (line) => lines.push(line) }] });
  const other = await startTestServer({ env: { CODER_EXPERIMENTS: 'oauth2,chat-advisor,nosuch,*' }, log });
  try {
    const { body } = await other.api<string[]>('GET', '/experiments');
    assert.deepEqual(
      ['oauth2', 'mcp-server-http', 'workspace-build-updates', 'chat-advisor', 'nosuch'].map((name) =>
        body.includes(name),
      ),
      [true, true, true, false, false],
    );
    const named = lines.flatMap((line) => {
      const { experiment, msg } = JSON.parse(line) as { experiment?: string; msg: string };
      return experiment === undefined ? [] : [[experiment, /unknown/.test(msg)]];
    });
    assert.deepEqual(named, [
      ['chat-advisor', false],
      ['nosuch', true],
      ['*', false],
    ]);
  } finally {
    await other.stop();
  }
});

test('allows only apps and the browser’s terminal with --browser-only', async () => {
  const other = await startTestServer({ env: { CODER_BROWSER_ONLY: 'true' } });
  const dev = await startTestWorkspace(other, 'dev');
  try {
    const { features } = (await other.api<Entitlements>('GET', '/entitlements')).body;
    assert.equal(features['browser_only']!.enabled, true);
    const dial = (path: string) =>
      dialWebSocket(`${other.url}/api/v2${path}`, { headers: { 'Coder-Session-Token': other.adminToken } });
    for (const service of ['ssh', 'tcp&port=80', 'udp&port=80', 'ping', 'speedtest']) {
      for (const path of [`/workspaceagents/${dev.agentId}/tunnel`, '/users/me/workspace/dev/tunnel']) {
        const refused = await dial(`${path}?service=${service}`).then(
          () => assert.fail(`${path} ${service}: it was let in`),
          (err: WebSocketDialError) => err,
        );
        assert.equal(refused.status, 403, refused.body);
        assert.match((JSON.parse(refused.body) as { message: string }).message, /browser only\.$/);
      }
    }
    const { connection } = await dial(`/workspaceagents/${dev.agentId}/pty?reconnect=${crypto.randomUUID()}`);
    connection.close();
    await connection.closed;
  } finally {
    await dev.stop();
    await other.stop();
  }
});
