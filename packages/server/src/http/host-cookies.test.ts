import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { ADMIN, createTestTemplate, startTestServer, type TestServer } from '@ropewalk/testkit';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { makeAgents, refusal } from '../rpc/testing/agents.ts';
import { takePrefixedSession } from './host-cookies.ts';
import { rejectedCookieFlags } from './session-cookie.ts';

const PREFIXED = '__Host-coder_session_token';
const PLAIN = 'coder_session_token';
const AGENT = '8c1f8e36-9a3c-4f6e-8f4a-2f8f1a0e4b11';

const taken = (cookie?: string) => {
  const headers = { ...(cookie === undefined ? {} : { cookie }) };
  takePrefixedSession(headers);
  return headers.cookie;
};

test('the prefixed cookie counts, and a plain one only with the token of an agent', () => {
  assert.equal(taken(`a=1; ${PREFIXED}=x; b=2`), `${PLAIN}=x; a=1; b=2`);
  assert.equal(taken(`${PLAIN}=planted; ${PREFIXED}=own; b=2`), `${PLAIN}=own; b=2`);
  assert.equal(taken(`${PLAIN}=${AGENT}; ${PREFIXED}=own`), `${PLAIN}=own`);
  assert.equal(taken(`${PLAIN}=planted`), undefined);
  assert.equal(taken(`a=1; ${PLAIN}=planted`), 'a=1');
  assert.equal(taken(`${PLAIN}=${AGENT}; a=1`), `${PLAIN}=${AGENT}; a=1`);
  assert.equal(taken(`a=${PREFIXED}=x; ${PLAIN}x=1`), `a=${PREFIXED}=x; ${PLAIN}x=1`);
  assert.equal(taken(undefined), undefined);
  // for browsers, this name has no prefix, so another host may have set it
  const blank = `a=1; \u00a0${PREFIXED}=planted`;
  assert.equal(taken(blank), blank);
  assert.equal(taken(`${blank}; ${PREFIXED}=own`), `${PLAIN}=own; ${blank}`);
});

let server: TestServer;
const lines: string[] = [];
before(async () => {
  const log = createLogger({ sinks: [{ format: 'json', write: (line) => lines.push(line) }] });
  server = await startTestServer({ env: { CODER_HOST_PREFIX_COOKIE: 'true' }, log });
});
after(() => server.stop());

const me = (cookie: string) => fetch(`${server.url}/api/v2/users/me`, { headers: { cookie } });
const post = (path: string, headers: Record<string, string>, body?: object) =>
  fetch(`${server.url}/api/v2${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });

test('the server warns once at its start if browsers will reject the cookie', () => {
  const warnings = lines.filter((line) => line.includes('--host-prefix-cookie')).map((line) => JSON.parse(line));
  assert.deepEqual(
    warnings.map(({ level, msg, access_url: url }) => [level, msg, url]),
    [
      [
        'warn',
        'browsers cannot sign in: --host-prefix-cookie requires HTTPS, but the access URL starts with http. Set --access-url to an https URL, or turn it off',
        server.accessUrl,
      ],
    ],
  );
  const both = { hostPrefixCookie: true, secureAuthCookie: true };
  assert.deepEqual(rejectedCookieFlags(both, 'http://dev.example.com'), [
    '--host-prefix-cookie',
    '--secure-auth-cookie',
  ]);
  assert.deepEqual(rejectedCookieFlags(both, 'https://dev.example.com'), []);
  const neither = { hostPrefixCookie: false, secureAuthCookie: false };
  assert.deepEqual(rejectedCookieFlags(neither, 'http://dev.example.com'), []);
});

test('a browser gets and sends the prefixed cookie, and loses it at logout', async () => {
  const login = await post('/users/login', {}, { email: ADMIN.email, password: ADMIN.password });
  const set = login.headers.getSetCookie().find((line) => line.includes(PLAIN))!;
  const { session_token: token } = (await login.json()) as { session_token: string };
  assert.ok(set.startsWith(`${PREFIXED}=${token}; Path=/; `), set);
  assert.ok(set.includes('; Secure') && !/domain/i.test(set), set);
  assert.equal((await me(`${PREFIXED}=${token}`)).status, 200);
  assert.equal((await me(`${PLAIN}=${token}`)).status, 401);
  assert.equal((await me(`${PLAIN}=${AGENT}; ${PREFIXED}=${token}`)).status, 200);
  const cookie = `${PREFIXED}=${token}; csrf_token=c`;
  const { headers } = await post('/users/logout', { cookie, 'x-csrf-token': 'c' });
  const ended = headers.getSetCookie().find((line) => line.includes(PLAIN))!;
  assert.ok(ended.startsWith(`${PREFIXED}=; Path=/; Max-Age=0; `) && ended.includes('; Secure'), ended);
  assert.equal((await me(`${PREFIXED}=${token}`)).status, 401);
});

test('streams take the prefixed cookie too, and agents keep theirs', async () => {
  const { agents } = await makeAgents(server, await createTestTemplate(server, 'one'), 'one');
  const [{ token, id }] = agents as [(typeof agents)[number]];
  const agent = await dialWebSocket(`${server.url}/api/v2/workspaceagents/me/rpc?version=2.6`, {
    headers: { Cookie: `${PLAIN}=${token}` },
  });
  agent.connection.close();
  const stream = (cookie: string) =>
    dialWebSocket(`${server.url}/api/v2/workspaceagents/${id}/watch-metadata-ws`, {
      headers: { Cookie: cookie, Origin: server.url },
    });
  const { connection } = await stream(`${PREFIXED}=${server.adminToken}`);
  connection.close();
  assert.equal((await refusal(stream(`${PLAIN}=${server.adminToken}`))).status, 401);
});
