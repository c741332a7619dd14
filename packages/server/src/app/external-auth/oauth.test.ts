import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { systemClock } from '@ropewalk/kit';
import { type ExternalAuthProvider, readExternalAuth } from '../../config/external-auth.ts';
import type { Services } from '../context/context.ts';
import { authorizationUrl, exchangeCode, refreshTokens, revokeTokens, validateToken } from './oauth.ts';

interface Sent {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** The requests that a host received, and its next answers. */
const sent: Sent[] = [];
const answers: { status: number; body?: string; headers?: Record<string, string> }[] = [];
const host = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  sent.push({ method: request.method!, path: request.url!, headers: request.headers, body });
  const { status, body: text = '', headers = {} } = answers.shift()!;
  response.writeHead(status, headers).end(text);
});
let url: string;
before(async () => {
  host.listen(0, '127.0.0.1');
  await once(host, 'listening');
  url = `http://127.0.0.1:${(host.address() as AddressInfo).port}`;
});
after(() => {
  host.closeAllConnections();
  host.close();
});

const services = { accessUrl: 'https://dev.test', clock: systemClock } as Services;
const flow = { state: 'state', nonce: 'nonce', pkceVerifier: 'verifier' };
function providerOf(type: string, more: Record<string, unknown> = {}): ExternalAuthProvider {
  const given = { type, client_id: 'the-client', client_secret: 's:1', auth_url: `${url}/authorize`, ...more };
  return readExternalAuth({}, [given], 'test')[0]!;
}
const granted = (more: object = {}) => ({ status: 200, body: JSON.stringify({ access_token: 'token', ...more }) });
const last = () => sent.at(-1)!;
const fields = () => Object.fromEntries(new URLSearchParams(last().body));

test('sends each host the token request that it documents', async () => {
  answers.push(granted({ expires_in: '60', refresh_token: 'again' }));
  const tokens = await exchangeCode(services, providerOf('gitlab'), 'code', flow);
  assert.deepEqual([tokens.access_token, tokens.refresh_token], ['token', 'again']);
  assert.ok(Math.abs(tokens.expires_at!.getTime() - Date.now() - 60_000) < 5_000);
  assert.deepEqual(fields(), {
    client_id: 'the-client',
    client_secret: 's:1',
    grant_type: 'authorization_code',
    code: 'code',
    redirect_uri: 'https://dev.test/external-auth/gitlab/callback',
    code_verifier: 'verifier',
  });

  const azure = providerOf('azure-devops', { token_url: `${url}/token` });
  assert.equal(new URL(authorizationUrl(services, azure, flow)).searchParams.get('response_type'), 'Assertion');
  answers.push(granted());
  await exchangeCode(services, azure, 'code', flow);
  assert.deepEqual(fields(), {
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: 's:1',
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: 'code',
    redirect_uri: 'https://dev.test/external-auth/azure-devops/callback',
  });

  const entra = providerOf('azure-devops-entra', { auth_url: `${url}/tenant/oauth2/authorize`, scopes: ['a', 'b'] });
  answers.push(granted());
  assert.equal((await refreshTokens(services, entra, 'old')).refresh_token, 'old', 'the old one stays');
  assert.equal(last().path, '/tenant/oauth2/token');
  assert.deepEqual([fields()['resource'], fields()['scope']], ['499b84ac-1321-427f-aa17-267ca6975798', 'a b']);

  answers.push(granted());
  await exchangeCode(services, providerOf('jfrog'), 'code', flow);
  assert.equal(last().path, '/access/api/v1/integrations/the-client/token');
  assert.equal(last().headers.authorization, 'Bearer s:1');

  const slack = providerOf('slack', { token_url: `${url}/token` });
  const authed_user = { id: 'U1', access_token: 'of the person' };
  answers.push({ status: 200, body: JSON.stringify({ ok: true, authed_user }) });
  const person = await exchangeCode(services, slack, 'code', flow);
  assert.deepEqual([person.access_token, person.extra], ['of the person', { authed_user }]);

  // takes the client's credentials in the header only
  answers.push({ status: 401, body: '{"error":"invalid_client"}' }, granted());
  await exchangeCode(services, providerOf('custom', { token_url: `${url}/token` }), 'code', flow);
  assert.equal(last().headers.authorization, `Basic ${Buffer.from('the-client:s%3A1').toString('base64')}`);
  assert.deepEqual(Object.keys(fields()), ['grant_type', 'code', 'redirect_uri']);
});

test('distinguishes a rejected token from a host that does not work', async () => {
  const github = providerOf('github');
  const refresh = () => refreshTokens(services, github, 'old');
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  answers.push({ status: 200, body: 'error=bad_refresh_token&error_description=It+expired.', headers: form });
  await assert.rejects(refresh, { code: 'invalid', detail: 'It expired.' });
  for (const status of [429, 500, 503]) {
    answers.push({ status, body: '{"error":"temporarily"}' });
    await assert.rejects(refresh, { code: 'unavailable' });
  }
  const check = () => validateToken(github, 'token').then(({ valid }) => valid);
  for (const [status, headers, valid] of [
    [401, {}, false],
    [403, {}, false],
    [403, { 'x-ratelimit-remaining': '0' }, true],
    [429, {}, true],
  ] as const) {
    answers.push({ status, headers });
    assert.equal(await check(), valid, String(status));
  }
  answers.push({ status: 502 });
  await assert.rejects(check, { code: 'unavailable' });
});

test('asks the host to end a token', async () => {
  const tokens = { access_token: 'token', refresh_token: 'again', expires_at: null, extra: {} };
  answers.push({ status: 204 });
  assert.equal(await revokeTokens(providerOf('github'), tokens), undefined);
  assert.deepEqual(
    [last().method, last().path, last().body],
    ['DELETE', '/api/v3/applications/the-client/grant', '{"access_token":"token"}'],
  );
  answers.push({ status: 503 });
  assert.equal(await revokeTokens(providerOf('gitlab'), tokens), 'It answered with status 503.');
  assert.deepEqual([fields()['token'], fields()['token_type_hint']], ['again', 'refresh_token']);
});
