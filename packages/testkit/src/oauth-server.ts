import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
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
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return new TestOAuthServer(server);
}

class TestOAuthServer implements OAuthServer {
  readonly url: string;
  tokenSeconds = 0;
  declines = false;
  intercept: OAuthServer['intercept'];
  tokens = new Set<string>();
  devices = new Map<string, boolean>();
  requests = new Map<string, number>();
  readonly #server: Server;
  readonly #codes = new Map<string, { challenge: string | null; redirectUri: string }>();
  readonly #refreshTokens = new Set<string>();

  constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request, response) => this.#serve(request, response));
  }

  env(number: number, more: Record<string, string> = {}): Record<string, string> {
    return Object.fromEntries(
      Object.entries({
        ID: 'git',
        TYPE: 'gitea',
        DISPLAY_NAME: 'Forge',
        CLIENT_ID: OAUTH_CLIENT.id,
        CLIENT_SECRET: OAUTH_CLIENT.secret,
        AUTH_URL: `${this.url}/login/oauth/authorize`,
        DEVICE_CODE_URL: `${this.url}/device/code`,
        REVOKE_URL: `${this.url}/revoke`,
        SCOPES: 'read write',
        EXTRA_TOKEN_KEYS: 'scope',
        ...more,
      }).map(([name, value]) => [`CODER_EXTERNAL_AUTH_${number}_${name}`, value]),
    );
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { pathname, searchParams } = new URL(request.url!, this.url);
    this.requests.set(pathname, (this.requests.get(pathname) ?? 0) + 1);
    if (this.intercept?.(request, response)) return;
    switch (pathname) {
      case '/ui/authorization':
      case '/login/oauth/authorize':
        return response.writeHead(302, { location: this.#authorize(searchParams) }).end();
      case `/access/api/v1/integrations/${OAUTH_CLIENT.id}/token`:
      case '/login/oauth/access_token':
        return this.#token(await bodyOf(request), response);
      case '/access/api/v1/system/ping':
      case '/login/oauth/userinfo':
        return json(response, {}, this.tokens.has(bearerOf(request)) ? 200 : 401);
      case '/revoke': {
        const body = await bodyOf(request);
        this.tokens.delete(bearerOf(request));
        this.#refreshTokens.delete(body.get('token')!);
        return json(response, {});
      }
      case '/device/code':
        return this.#deviceCode(response);
      default:
        return response.writeHead(404).end();
    }
  }

  /** Returns the address that leads the person back, with a code unless the person declines. */
  #authorize(query: URLSearchParams): string {
    const redirectUri = query.get('redirect_uri')!;
    const back = new URL(redirectUri);
    back.searchParams.set('state', query.get('state')!);
    if (this.declines) back.searchParams.set('error', 'access_denied');
    else {
      const code = crypto.randomUUID();
      this.#codes.set(code, { challenge: query.get('code_challenge'), redirectUri });
      back.searchParams.set('code', code);
    }
    return back.href;
  }

  /** Exchanges a refresh token, a device code or a code for an access token. */
  #token(body: URLSearchParams, response: ServerResponse): unknown {
    if (body.get('client_id') !== OAUTH_CLIENT.id || body.get('client_secret') !== OAUTH_CLIENT.secret)
      return json(response, { error: 'invalid_client' }, 401);
    if (body.get('grant_type') === 'refresh_token') {
      if (!this.#refreshTokens.delete(body.get('refresh_token')!))
        return json(response, { error: 'invalid_grant' }, 400);
      return this.#issue(response);
    }
    const device = body.get('device_code');
    if (device !== null) {
      if (!this.devices.has(device)) return json(response, { error: 'expired_token' }, 400);
      if (!this.devices.get(device)) return json(response, { error: 'authorization_pending' }, 400);
      this.devices.delete(device);
      return this.#issue(response);
    }
    if (!this.#redeem(body))
      return json(response, { error: 'invalid_grant', error_description: 'The code is not valid.' }, 400);
    return this.#issue(response);
  }

  /** Uses up a code. Returns whether the client has proven that it requested it. */
  #redeem(body: URLSearchParams): boolean {
    const code = this.#codes.get(body.get('code')!);
    this.#codes.delete(body.get('code')!);
    const verifier = body.get('code_verifier');
    const answer = verifier === null ? null : createHash('sha256').update(verifier).digest('base64url');
    return code !== undefined && answer === code.challenge && body.get('redirect_uri') === code.redirectUri;
  }

  #issue(response: ServerResponse): unknown {
    const access_token = crypto.randomUUID();
    this.tokens.add(access_token);
    if (this.tokenSeconds === 0) return json(response, { access_token, token_type: 'bearer', scope: 'read write' });
    const refresh_token = crypto.randomUUID();
    this.#refreshTokens.add(refresh_token);
    const answer = { access_token, refresh_token, expires_in: this.tokenSeconds, token_type: 'bearer', scope: 'read' };
    return json(response, answer);
  }

  #deviceCode(response: ServerResponse): unknown {
    const device_code = crypto.randomUUID();
    this.devices.set(device_code, false);
    const verification_uri = `${this.url}/device`;
    return json(response, { device_code, user_code: 'ABCD-1234', verification_uri, expires_in: 900, interval: 1 });
  }
}

const bearerOf = ({ headers }: IncomingMessage) => /^Bearer (.*)$/.exec(headers.authorization ?? '')?.[1] ?? '';

const json = (response: ServerResponse, value: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
