import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readExternalAuth } from './external-auth.ts';
import { loadConfig } from './load.ts';
import { deploymentValues } from './values.ts';

const read = (env: Record<string, string>, yaml?: unknown) =>
  readExternalAuth(env, yaml, 'server.yaml: externalAuthProviders');
const base = { CLIENT_ID: 'client', CLIENT_SECRET: 'secret' };
const numbered = (settings: Record<string, string>, prefix = 'CODER_EXTERNAL_AUTH_0_') =>
  Object.fromEntries(Object.entries({ ...base, ...settings }).map(([name, value]) => [prefix + name, value]));
const one = (settings: Record<string, string>) => read(numbered(settings))[0]!;

test('fills in the defaults of each type, on the host of its auth URL', () => {
  const urls = (settings: Record<string, string>) => {
    const { auth_url, token_url, validate_url, regex } = one(settings);
    return [auth_url, token_url, validate_url, regex];
  };
  assert.deepEqual(urls({ TYPE: 'github' }), [
    'https://github.com/login/oauth/authorize',
    'https://github.com/login/oauth/access_token',
    'https://api.github.com/user',
    '^(https?://)?github\\.com(/.*)?$',
  ]);
  assert.deepEqual(urls({ TYPE: 'github', AUTH_URL: 'https://git.acme.test/login/oauth/authorize' }), [
    'https://git.acme.test/login/oauth/authorize',
    'https://git.acme.test/login/oauth/access_token',
    'https://git.acme.test/api/v3/user',
    '^(https?://)?git\\.acme\\.test(/.*)?$',
  ]);
  assert.deepEqual(urls({ TYPE: 'gitlab', AUTH_URL: 'https://gl.test/oauth/authorize' }), [
    'https://gl.test/oauth/authorize',
    'https://gl.test/oauth/token',
    'https://gl.test/oauth/token/info',
    '^(https?://)?gl\\.test(/.*)?$',
  ]);
  assert.deepEqual(urls({ TYPE: 'bitbucket-server', AUTH_URL: 'https://bb.test/rest/oauth2/latest/authorize' }), [
    'https://bb.test/rest/oauth2/latest/authorize',
    'https://bb.test/rest/oauth2/latest/token',
    'https://bb.test/rest/api/latest/inbox/pull-requests/count',
    '^(https?://)?bb\\.test(/.*)?$',
  ]);
  assert.equal(
    one({ TYPE: 'azure-devops-entra', AUTH_URL: 'https://login.test/tenant/oauth2/authorize' }).token_url,
    'https://login.test/tenant/oauth2/token',
  );
  assert.equal(
    one({ TYPE: 'jfrog', AUTH_URL: 'https://jf.test/ui/authorization' }).token_url,
    'https://jf.test/access/api/v1/integrations/client/token',
  );
  for (const TYPE of ['bitbucket-cloud', 'azure-devops', 'gitea', 'slack']) {
    const { id, display_icon } = one({ TYPE });
    assert.deepEqual([id, display_icon !== ''], [TYPE, true]);
  }
  assert.deepEqual(one({ TYPE: 'github', SCOPES: 'repo user' }).scopes, ['repo', 'user']);
});

test('reads both prefixes in the order of their numbers, and the YAML file', () => {
  const env = {
    ...numbered({ TYPE: 'gitlab' }, 'CODER_EXTERNAL_AUTH_10_'),
    ...numbered({ TYPE: 'github', NO_REFRESH: 'true' }, 'CODER_GITAUTH_9_'),
    CODER_EXTERNAL_AUTH_GITHUB_DEFAULT_PROVIDER_ENABLE: 'false',
  };
  const yaml = [{ id: 'forge', type: 'gitea', client_id: 'c', client_secret: 's', device_flow: false, scopes: ['a'] }];
  assert.deepEqual(
    read(env, yaml).map(({ id, no_refresh }) => [id, no_refresh]),
    [
      ['forge', false],
      ['github', true],
      ['gitlab', false],
    ],
  );
});

test('names the setting that is missing or wrong', () => {
  const rejected: [Record<string, string>, RegExp][] = [
    [{ TYPE: '' }, /CODER_EXTERNAL_AUTH_0_\*: set its type/],
    [{ TYPE: 'github', CLIENT_ID: '' }, /set its client id/],
    [{ TYPE: 'github', CLIENT_SECRET: '' }, /set its client secret/],
    [{ TYPE: 'custom' }, /set its auth URL/],
    [{ TYPE: 'custom', AUTH_URL: 'https://x.test/a' }, /set its token URL/],
    [{ TYPE: 'custom', AUTH_URL: 'javascript:alert(1)', TOKEN_URL: 'https://x.test' }, /auth_url .* is not a URL/],
    [{ TYPE: 'github', ID: '../x' }, /the id "\.\.\/x"/],
    [{ TYPE: 'github', REGEX: '(' }, /its regex "\("/],
    [{ TYPE: 'github', DEVICE_FLOW: 'maybe' }, /CODER_EXTERNAL_AUTH_0_DEVICE_FLOW: "maybe"/],
    [{ TYPE: 'bitbucket-cloud', DEVICE_FLOW: 'true' }, /set its device code URL/],
  ];
  for (const [settings, message] of rejected) assert.throws(() => one(settings), message);
  const twice = { ...numbered({ TYPE: 'github' }), ...numbered({ TYPE: 'github' }, 'CODER_EXTERNAL_AUTH_1_') };
  assert.throws(() => read(twice), /Two external auth providers have the id "github"/);
  assert.throws(() => read({}, { id: 'x' }), /it must be a list/);
  assert.throws(() => read({}, [{ typ: 'github' }]), /externalAuthProviders\[0\]: unknown setting "typ"/);
});

test('shows providers without their secrets', () => {
  const { config } = loadConfig({ env: numbered({ TYPE: 'github' }) });
  const shown = deploymentValues(config).external_auth;
  assert.deepEqual([shown[0]!.id, shown[0]!.client_id], ['github', 'client']);
  assert.doesNotMatch(JSON.stringify(shown), /secret/);
});
