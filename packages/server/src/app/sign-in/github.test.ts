import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ExternalAuthDevice, GetUsersResponse, User } from '@ropewalk/contract';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { type Github, type GithubAccount, startGithub } from '@ropewalk/testkit/github';
import { Browser } from '@ropewalk/testkit/identity-provider';

let github: Github;
let server: TestServer;
const options = (more: Record<string, string> = {}) => ({
  CODER_OAUTH2_GITHUB_CLIENT_ID: 'client',
  CODER_OAUTH2_GITHUB_CLIENT_SECRET: 'secret',
  CODER_OAUTH2_GITHUB_ENTERPRISE_BASE_URL: github.url,
  CODER_OAUTH2_GITHUB_ALLOWED_ORGS: 'Acme',
  CODER_OAUTH2_GITHUB_ALLOWED_TEAMS: 'acme/platform,acme/web',
  CODER_OAUTH2_GITHUB_ALLOW_SIGNUPS: 'true',
  ...more,
});
before(async () => {
  github = await startGithub();
  server = await startTestServer({ env: options() });
});
after(async () => {
  await server.stop();
  github.stop();
});

const CALLBACK = '/api/v2/users/oauth2/github/callback';
const member = (login: string, id: number, more: Partial<GithubAccount> = {}): GithubAccount => ({
  id,
  login,
  email: `${login}@example.com`,
  organizations: { ACME: 'active' },
  teams: { 'acme/web': 'active' },
  ...more,
});

async function signIn(as: GithubAccount): Promise<{ token: string | undefined; error: string }> {
  github.account = as;
  const browser = new Browser();
  await browser.open(`${server.url}${CALLBACK}`, (url) => url.startsWith(server.url) && !url.includes(CALLBACK));
  return {
    token: browser.cookie(server.url, 'coder_session_token'),
    error: decodeURIComponent(browser.cookie(server.url, 'coder_sign_in_error') ?? ''),
  };
}

test('signs members of the organizations and teams in, and nobody else', async () => {
  const methods = await server.api<{ github: object }>('GET', '/users/authmethods', { token: null });
  assert.deepEqual(methods.body.github, { enabled: true, default_provider_configured: false });
  const { token, error } = await signIn(member('octo', 7));
  assert.ok(token, error);
  const { body } = await server.api<User>('GET', '/users/me', { token });
  assert.deepEqual(
    [body.username, body.email, body.login_type, body.name],
    ['octo', 'octo@example.com', 'github', 'Name of octo'],
  );
  // the number identifies the account: the name and the address may change
  const renamed = await signIn(member('octo-renamed', 7));
  const again = await server.api<User>('GET', '/users/me', { token: renamed.token! });
  assert.deepEqual(
    [again.body.id, again.body.username, again.body.email],
    [body.id, 'octo', 'octo-renamed@example.com'],
  );

  const found = await server.api<GetUsersResponse>('GET', '/users?q=github_com_user_id:7');
  assert.deepEqual(
    found.body.users.map(({ id }) => id),
    [body.id],
  );
  assert.equal((await server.api<GetUsersResponse>('GET', '/users?q=github_com_user_id:70')).body.count, 0);

  const rejected: [Partial<GithubAccount>, RegExp][] = [
    [{ organizations: {} }, /organization that may sign in/],
    [{ organizations: { acme: 'pending' } }, /organization that may sign in/],
    [{ teams: {} }, /team that may sign in/],
    [{ teams: { 'acme/web': 'pending', 'other/web': 'active' } }, /team that may sign in/],
    [{ verified: false }, /Verify your primary email/],
    [{ email: 'octo-renamed@example.com' }, /belongs to another identity/],
  ];
  for (const [more, message] of rejected) {
    const answer = await signIn(member('stranger', 8, more));
    assert.equal(answer.token, undefined);
    assert.match(answer.error, message);
  }
});

test('signs in with a code that the person types on another device', async () => {
  const device = await startTestServer({ env: options({ CODER_OAUTH2_GITHUB_DEVICE_FLOW: 'true' }) });
  try {
    const off = await server.api<{ message: string }>('GET', '/users/oauth2/github/device', { token: null });
    assert.equal(off.status, 400);
    const browser = new Browser();
    const page = await browser.open(`${device.url}${CALLBACK}?redirect=/cli-auth`, (url) =>
      url.includes('/login/device'),
    );
    const state = new URL(page).searchParams.get('state')!;
    const code = await device.api<ExternalAuthDevice>('GET', '/users/oauth2/github/device', { token: null });
    assert.equal(code.body.user_code, 'ABCD-1234');
    const cookies = [...browser.cookies.get(new URL(device.url).host)!].map(([name, value]) => `${name}=${value}`);
    const ask = (cookie = cookies.join('; ')) =>
      device.api<{ detail?: string; redirect_url?: string }>(
        'GET',
        `/users/oauth2/github/callback?${new URLSearchParams({ state, code: code.body.device_code })}`,
        { token: null, headers: { Cookie: cookie } },
      );
    assert.deepEqual([(await ask()).status, (await ask()).body.detail], [400, 'authorization_pending']);
    github.devices.set(code.body.device_code, member('typist', 9));
    assert.equal((await ask('')).status, 401, 'only the browser that started it');
    const done = await ask();
    assert.deepEqual([done.status, done.body], [200, { redirect_url: '/cli-auth' }]);
    assert.match(done.headers.getSetCookie().join(), /coder_session_token=\w+-\w+/);
    assert.equal((await ask()).status, 401, 'once');
  } finally {
    await device.stop();
  }
});

test('does not start with options that contradict each other', async () => {
  const cases: [Record<string, string>, RegExp][] = [
    [
      { CODER_OAUTH2_GITHUB_ALLOWED_ORGS: '', CODER_OAUTH2_GITHUB_ALLOWED_TEAMS: '' },
      /Set --oauth2-github-allowed-orgs/,
    ],
    [{ CODER_OAUTH2_GITHUB_ALLOW_EVERYONE: 'true' }, /Use either/],
    [{ CODER_OAUTH2_GITHUB_ALLOWED_TEAMS: 'web' }, /organization\/team/],
    [{ CODER_OAUTH2_GITHUB_ALLOWED_TEAMS: 'other/web' }, /Add "other"/],
  ];
  for (const [more, message] of cases) {
    await assert.rejects(startTestServer({ env: options(more) }), message);
  }
});
