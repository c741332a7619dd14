import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An account of the stand-in for GitHub. */
export interface GithubAccount {
  id: number;
  login: string;
  email: string;
  verified?: boolean;
  /** Organization → state of the membership. */
  organizations: Record<string, 'active' | 'pending'>;
  /** organization/team → state of the membership. */
  teams: Record<string, 'active' | 'pending'>;
}

export interface Github {
  url: string;
  /** The account that signs in next through a browser. */
  account: GithubAccount | undefined;
  /** The account whose person typed the code of a device flow, by device code. */
  devices: Map<string, GithubAccount | undefined>;
  stop(): void;
}

async function bodyOf(request: IncomingMessage): Promise<URLSearchParams> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return new URLSearchParams(Buffer.concat(chunks).toString());
}

/** Starts a stand-in with the endpoints that GitHub documents for OAuth apps and for the REST API of GitHub Enterprise. */
export async function startGithub(): Promise<Github> {
  const codes = new Map<string, { account: GithubAccount; challenge: string }>();
  const devices: Github['devices'] = new Map();
  const tokens = new Map<string, GithubAccount>();
  const self: Github = { url: '', account: undefined, devices, stop };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url!, 'http://github.test');
    const json = (value: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (url.pathname === '/login/oauth/authorize') {
      const code = crypto.randomUUID();
      codes.set(code, { account: self.account!, challenge: url.searchParams.get('code_challenge')! });
      const back = new URL(url.searchParams.get('redirect_uri')!);
      back.searchParams.set('code', code);
      back.searchParams.set('state', url.searchParams.get('state')!);
      return response.writeHead(302, { Location: back.href }).end();
    }
    const body = await bodyOf(request);
    const issue = (to: GithubAccount) => {
      const token = crypto.randomUUID();
      tokens.set(token, to);
      return json({ access_token: token, token_type: 'bearer', scope: 'read:user,user:email' });
    };
    if (url.pathname === '/login/device/code') {
      const device_code = crypto.randomUUID();
      devices.set(device_code, undefined);
      return json({
        device_code,
        user_code: 'ABCD-1234',
        verification_uri: 'https://github.test/login/device',
        expires_in: 900,
        interval: 1,
      });
    }
    if (url.pathname === '/login/oauth/access_token') {
      const device = body.get('device_code');
      if (device !== null) {
        const typed = devices.get(device);
        return typed ? issue(typed) : json({ error: 'authorization_pending' });
      }
      const found = codes.get(body.get('code')!);
      codes.delete(body.get('code')!);
      const digest = await crypto.subtle.digest('SHA-256', Buffer.from(body.get('code_verifier') ?? ''));
      if (
        !found ||
        Buffer.from(digest).toString('base64url') !== found.challenge ||
        body.get('client_secret') !== 'secret'
      )
        return json({ error: 'bad_verification_code', error_description: 'The code is incorrect or expired.' });
      return issue(found.account);
    }
    const me = tokens.get(/^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '');
    if (!me) return json({ message: 'Bad credentials' }, 401);
    const path = url.pathname.replace(/^\/api\/v3/, '');
    if (path === '/user')
      return json({ id: me.id, login: me.login, name: `Name of ${me.login}`, avatar_url: 'https://example.com/a.png' });
    if (path === '/user/emails') {
      return json([
        { email: 'other@example.com', primary: false, verified: true },
        { email: me.email, primary: true, verified: me.verified ?? true },
      ]);
    }
    if (path === '/user/memberships/orgs') {
      // the first page is full of others
      if (url.searchParams.get('page') === '1')
        return json(
          Array.from({ length: 100 }, (_, at) => ({ state: 'active', organization: { login: `other-${at}` } })),
        );
      return json(Object.entries(me.organizations).map(([login, state]) => ({ state, organization: { login } })));
    }
    const [, organization, team] = /^\/orgs\/([^/]+)\/teams\/([^/]+)\/memberships\//.exec(path) ?? [];
    const state = me.teams[`${organization}/${team}`];
    return state ? json({ state }) : json({ message: 'Not Found' }, 404);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  self.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return self;

  function stop(): void {
    server.closeAllConnections();
    server.close();
  }
}
