import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type Gitea, needsGitea, startGitea } from './gitea.ts';
import {
  type Build,
  buildEnds,
  coder,
  ensureExecutable,
  firstUser,
  freePort,
  makeTemplate,
  type ServerProcess,
  signedInEnv,
  startCoderServer,
  type Workspace,
} from './harness.ts';
import { localExample } from './local.ts';

let gitea: Gitea;
let server: ServerProcess;
before(async () => {
  if (needsGitea.skip) return;
  const [port] = await Promise.all([freePort(), ensureExecutable()]);
  gitea = await startGitea();
  const url = `http://127.0.0.1:${port}`;
  const app = await gitea.addApp([`${url}/external-auth/forge/callback`, `${url}/api/v2/users/oidc/callback`]);
  server = await startCoderServer({
    port,
    env: {
      CODER_OIDC_ISSUER_URL: gitea.url,
      CODER_OIDC_CLIENT_ID: app.id,
      CODER_OIDC_CLIENT_SECRET: app.secret,
      CODER_EXTERNAL_AUTH_0_ID: 'forge',
      CODER_EXTERNAL_AUTH_0_TYPE: 'gitea',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: app.id,
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: app.secret,
      CODER_EXTERNAL_AUTH_0_AUTH_URL: `${gitea.url}/login/oauth/authorize`,
    },
  });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  await gitea?.stop();
});

const TEMPLATE = `${localExample()['main.tf']}
data "coder_external_auth" "forge" {
  id = "forge"
}
resource "terraform_data" "proof" {
  input = sha256(data.coder_external_auth.forge.access_token)
}
`;

test('signs in through Gitea, connects it, clones and pushes a private repository', {
  ...needsGitea,
  timeout: 240_000,
}, async () => {
  await gitea.addUser('kim');
  await gitea.addRepository('kim', 'secret');
  // the import has no account, and needs none
  const template = await makeTemplate(server, 'forged', { 'main.tf': TEMPLATE });

  const admin = server.token;
  const browser = await gitea.browser('kim');
  const isBack = (path: string) => (url: string) => url.startsWith(server.url) && !url.includes(path);
  const home = await browser.allow(`${server.url}/api/v2/users/oidc/callback`, isBack('/callback'));
  assert.equal(home, `${server.url}/`, decodeURIComponent(browser.cookie(server.url, 'coder_sign_in_error') ?? ''));
  server.token = browser.cookie(server.url, 'coder_session_token')!;
  const me = await server.api<{ username: string; login_type: string }>('GET', '/users/me');
  assert.deepEqual([me.body.username, me.body.login_type], ['kim', 'oidc']);

  const create = () =>
    server.api<Workspace & { message: string; detail: string }>('POST', '/users/me/workspaces', {
      name: 'dev',
      template_id: template,
    });
  const refused = await create();
  assert.equal(refused.status, 400);
  assert.equal(refused.body.detail, `Connect it here: ${server.url}/external-auth/forge`);
  const page = await browser.allow(`${server.url}/external-auth/forge/callback`, isBack('/callback'));
  assert.equal(page, refused.body.detail.split(': ')[1]);
  const account = await server.api<{ authenticated: boolean; validate_error?: string }>('GET', '/external-auth/forge');
  assert.deepEqual([account.body.authenticated, account.body.validate_error], [true, undefined]);

  const made = await create();
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const build: Build = await buildEnds(server, made.body.latest_build.id);
  assert.equal(build.job.status, 'succeeded', build.job.error ?? '');

  const env = signedInEnv(server);
  const inWorkspace = async (script: string) => {
    const done = await coder(['ssh', 'dev', '--', 'sh', '-ec', `'${script}'`], { env });
    assert.equal(done.code, 0, done.stdout + done.stderr);
    return done.stdout;
  };
  const token = (await inWorkspace('coder external-auth access-token forge')).trim();
  const kim = server.token;
  server.token = admin;
  const { body: state } = await server.api<{
    resources: { name: string; instances: { attributes: { input: unknown } }[] }[];
  }>('GET', `/workspacebuilds/${build.id}/state`);
  server.token = kim;
  const proof = state.resources.find(({ name }) => name === 'proof')?.instances[0]?.attributes.input;
  assert.deepEqual(proof, { value: createHash('sha256').update(token).digest('hex'), type: 'string' });

  await inWorkspace(`
    git clone ${gitea.url}/kim/secret.git
    cd secret
    echo "from the workspace" > note.txt
    git add note.txt
    git -c user.name=Kim -c user.email=kim@example.com commit -qm "Add a note"
    git push origin HEAD:pushed`);
  const note = await gitea.api<{ content: string }>(
    'GET',
    '/repos/kim/secret/contents/note.txt?ref=pushed',
    undefined,
    'kim',
  );
  assert.equal(Buffer.from(note.content, 'base64').toString(), 'from the workspace\n');
});
