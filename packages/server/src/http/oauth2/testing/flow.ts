import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import type { OAuth2ProviderApp, OAuth2ProviderAppSecretFull } from '@ropewalk/contract';
import type { TestServer } from '@ropewalk/testkit';

/** An app as it knows itself. */
export interface TestApp {
  id: string;
  /** Undefined: it is public. */
  secret: string | undefined;
  secretId: string;
  redirectUri: string;
}

export interface Answered {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of any answer
  body: any;
}

export const CALLBACK = 'https://app.example/callback?fixed=1';

export const pkce = () => {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') };
};

/** Speaks the protocol like an app, over HTTP. */
export function protocolOf(server: TestServer, person: () => string) {
  async function ask(method: string, path: string, init: RequestInit = {}): Promise<Answered> {
    const response = await fetch(`${server.url}${path}`, { method, redirect: 'manual', ...init });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') && text !== '';
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
  }

  async function createApp(fields: object = {}): Promise<TestApp> {
    const body = { name: 'Test app', callback_url: CALLBACK, ...fields };
    const app = await server.api<OAuth2ProviderApp>('POST', '/oauth2-provider/apps', { body });
    assert.equal(app.status, 201, JSON.stringify(app.body));
    const path = `/oauth2-provider/apps/${app.body.id}/secrets`;
    const secret = await server.api<OAuth2ProviderAppSecretFull>('POST', path);
    return {
      id: app.body.id,
      secret: secret.body.client_secret_full,
      secretId: secret.body.id,
      redirectUri: body.callback_url,
    };
  }

  const post = (path: string, form: Record<string, string | undefined>, headers: Record<string, string> = {}) =>
    ask('POST', path, {
      body: new URLSearchParams(Object.entries(form).filter((entry): entry is [string, string] => !!entry[1])),
      headers,
    });

  /** Asks for a code as the person, who allows it. Returns the answer, and the parameters of the address in it. */
  async function authorize(app: TestApp, query: Record<string, string | undefined> = {}, init: RequestInit = {}) {
    const defaults = { client_id: app.id, response_type: 'code', redirect_uri: app.redirectUri, state: 'st&te' };
    const all = Object.entries({ ...defaults, ...query }).filter((entry): entry is [string, string] => !!entry[1]);
    const answer = await ask('POST', `/oauth2/authorize?${new URLSearchParams(all)}`, {
      headers: { 'Coder-Session-Token': person() },
      ...init,
    });
    const location = answer.headers.get('location');
    return { ...answer, location, back: new URL(location ?? 'none:').searchParams };
  }

  async function code(app: TestApp, query: Record<string, string | undefined> = {}): Promise<string> {
    const { status, back, body } = await authorize(app, query);
    assert.equal(status, 302, JSON.stringify(body));
    return back.get('code') ?? assert.fail(String(back));
  }

  const credentials = ({ id, secret }: TestApp) => ({ client_id: id, client_secret: secret });
  const token = (form: Record<string, string | undefined>, headers?: Record<string, string>) =>
    post('/oauth2/tokens', form, headers);
  const exchange = (app: TestApp, text: string, more: Record<string, string | undefined> = {}) =>
    token({
      grant_type: 'authorization_code',
      code: text,
      redirect_uri: app.redirectUri,
      ...credentials(app),
      ...more,
    });
  const refresh = (app: TestApp, text: string, more: Record<string, string | undefined> = {}) =>
    token({ grant_type: 'refresh_token', refresh_token: text, ...credentials(app), ...more });
  const revoke = (app: TestApp, text: string, more: Record<string, string | undefined> = {}) =>
    post('/oauth2/revoke', { token: text, ...credentials(app), ...more });
  /** The status with which the API answers an access token. */
  const use = async (access: string, path = '/api/v2/users/me') =>
    (await ask('GET', path, { headers: { authorization: `Bearer ${access}` } })).status;
  /** Tokens of a new family. */
  async function signIn(app: TestApp, query: Record<string, string | undefined> = {}) {
    const answer = await exchange(app, await code(app, query));
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body as { access_token: string; refresh_token: string; scope: string; expires_in: number };
  }
  return { ask, post, createApp, authorize, code, token, exchange, refresh, revoke, use, signIn, credentials };
}
