import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const OAUTH_CLIENT = { id: 'platform', secret: 'a secret of the client' };

/** A small OAuth 2.0 server, at the addresses of Gitea and of JFrog, whose accounts allow everything, for tests of external auth providers. */
export interface OAuthServer {
  url: string;
  /** Lifetime of access tokens in seconds. 0: they do not expire, and there are no refresh tokens. */
  tokenSeconds: number;
  /** Whether the person declines. */
  declines: boolean;
  /** Answers a request instead of the server, if it returns true. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** The valid access tokens. */
  tokens: Set<string>;
  /** The device codes, and whether their person has typed the code. */
  devices: Map<string, boolean>;
  /** How often each path was asked for. */
  requests: Map<string, number>;
  /** The settings of this provider as variables of the server, with a number. */
  env(number: number, more?: Record<string, string>): Record<string, string>;
  stop(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<URLSearchParams> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return new URLSearchParams(Buffer.concat(chunks).toString());
}

export async function startOAuthServer(): Promise<OAuthServer> {
  const codes = new Map<string, { challenge: string | null; redirectUri: string }>();
  const refreshTokens = new Set<string>();
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const self: OAuthServer = {
    url,
    tokenSeconds: 0,
    declines: false,
    intercept: undefined,
    tokens: new Set(),
    devices: new Map(),
    requests: new Map(),
    env: (number, more = {}) =>
      Object.fromEntries(
        Object.entries({
          ID: 'git',
          TYPE: 'gitea',
          DISPLAY_NAME: 'Forge',
          CLIENT_ID: OAUTH_CLIENT.id,
          CLIENT_SECRET: OAUTH_CLIENT.secret,
          AUTH_URL: `${url}/login/oauth/authorize`,
          DEVICE_CODE_URL: `${url}/device/code`,
          REVOKE_URL: `${url}/revoke`,
          SCOPES: 'read write',
          EXTRA_TOKEN_KEYS: 'scope',
          ...more,
        }).map(([name, value]) => [`CODER_EXTERNAL_AUTH_${number}_${name}`, value]),
      ),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  server.on('request', async (request, response) => {
    const { pathname, searchParams } = new URL(request.url!, url);
    self.requests.set(pathname, (self.requests.get(pathname) ?? 0) + 1);
    if (self.intercept?.(request, response)) return;
    const json = (value: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const issue = () => {
      const access_token = crypto.randomUUID();
      self.tokens.add(access_token);
      if (self.tokenSeconds === 0) return json({ access_token, token_type: 'bearer', scope: 'read write' });
      const refresh_token = crypto.randomUUID();
      refreshTokens.add(refresh_token);
      return json({ access_token, refresh_token, expires_in: self.tokenSeconds, token_type: 'bearer', scope: 'read' });
    };
    switch (pathname) {
      case '/ui/authorization':
      case '/login/oauth/authorize': {
        const back = new URL(searchParams.get('redirect_uri')!);
        back.searchParams.set('state', searchParams.get('state')!);
        if (self.declines) back.searchParams.set('error', 'access_denied');
        else {
          const code = crypto.randomUUID();
          codes.set(code, {
            challenge: searchParams.get('code_challenge'),
            redirectUri: searchParams.get('redirect_uri')!,
          });
          back.searchParams.set('code', code);
        }
        return response.writeHead(302, { location: back.href }).end();
      }
      case `/access/api/v1/integrations/${OAUTH_CLIENT.id}/token`:
      case '/login/oauth/access_token': {
        const body = await bodyOf(request);
        if (body.get('client_id') !== OAUTH_CLIENT.id || body.get('client_secret') !== OAUTH_CLIENT.secret)
          return json({ error: 'invalid_client' }, 401);
        if (body.get('grant_type') === 'refresh_token') {
          if (!refreshTokens.delete(body.get('refresh_token')!)) return json({ error: 'invalid_grant' }, 400);
          return issue();
        }
        const device = body.get('device_code');
        if (device !== null) {
          if (!self.devices.has(device)) return json({ error: 'expired_token' }, 400);
          if (!self.devices.get(device)) return json({ error: 'authorization_pending' }, 400);
          self.devices.delete(device);
          return issue();
        }
        const code = codes.get(body.get('code')!);
        codes.delete(body.get('code')!);
        const verifier = body.get('code_verifier');
        const answer = verifier === null ? null : createHash('sha256').update(verifier).digest('base64url');
        const proven = answer === code?.challenge;
        if (!code || !proven || body.get('redirect_uri') !== code.redirectUri)
          return json({ error: 'invalid_grant', error_description: 'The code is not valid.' }, 400);
        return issue();
      }
      case '/access/api/v1/system/ping':
      case '/login/oauth/userinfo':
        return json(
          {},
          self.tokens.has(/^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? '') ? 200 : 401,
        );
      case '/revoke': {
        const body = await bodyOf(request);
        self.tokens.delete(/^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? '');
        refreshTokens.delete(body.get('token')!);
        return json({});
      }
      case '/device/code': {
        const device_code = crypto.randomUUID();
        self.devices.set(device_code, false);
        return json({
          device_code,
          user_code: 'ABCD-1234',
          verification_uri: `${url}/device`,
          expires_in: 900,
          interval: 1,
        });
      }
      default:
        return response.writeHead(404).end();
    }
  });
  return self;
}
