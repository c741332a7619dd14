import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';

const CALLBACK = '/api/v2/users/oidc/callback';
export const CLIENT = { id: 'platform', secret: 'a secret of the client' };

/** The client that authenticates itself with a key, if the provider was started with one. */
export const KEYED_CLIENT = 'platform-with-key';

export interface IdentityProvider {
  url: string;
  /** The claims of everyone who has an account, by subject. */
  people: Map<string, Record<string, unknown>>;
  /** The subject of the person who signs in next. Undefined: the person declines. */
  next: string | undefined;
  /** Answers a request instead of the provider, if it returns true. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Changes the claims of the ID tokens that it issues, and signs them with another key if one is given. */
  forge: ((claims: Record<string, unknown>) => { claims: Record<string, unknown>; key?: KeyObject }) | undefined;
  /** How often each path was asked for. */
  requests: Map<string, number>;
  /** The headers of the assertions with which clients authenticated themselves. */
  assertions: string[];
  /** Ends the sign-ins of everyone: refresh tokens no longer work. */
  revokeAll(): Promise<void>;
  stop(): Promise<void>;
}

export interface IdentityProviderOptions {
  /** Lifetime of access tokens in seconds. */
  accessTokenSeconds?: number;
  /** The public key (P-256) of KEYED_CLIENT. */
  clientKey?: KeyObject;
  /** 0: a free one. */
  port?: number;
}

/** Starts a real OpenID Connect provider in this process, which signs `next` in without asking. */
export async function startIdentityProvider(options: IdentityProviderOptions = {}): Promise<IdentityProvider> {
  const server = createServer();
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  return new LocalIdentityProvider(server, options);
}

class LocalIdentityProvider implements IdentityProvider {
  readonly url: string;
  readonly people: IdentityProvider['people'] = new Map();
  next: string | undefined;
  intercept: IdentityProvider['intercept'];
  forge: IdentityProvider['forge'];
  readonly requests: IdentityProvider['requests'] = new Map();
  readonly assertions: string[] = [];
  readonly #server: Server;
  /** Signs the ID tokens. */
  readonly #key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  readonly #grants = new Set<string>();
  readonly #provider: Provider;
  readonly #handle: ReturnType<Provider['callback']>;

  constructor(server: Server, options: IdentityProviderOptions) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.#provider = this.#createProvider(options);
    this.#handle = this.#provider.callback();
    server.on('request', (request, response) => this.#serve(request, response));
  }

  async revokeAll(): Promise<void> {
    for (const id of this.#grants) await (await this.#provider.Grant.find(id))?.destroy();
    this.#grants.clear();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #createProvider({ clientKey, accessTokenSeconds = 3600 }: IdentityProviderOptions): Provider {
    const provider: Provider = new Provider(this.url, {
      clients: clientsWith(clientKey),
      jwks: { keys: [{ ...this.#key.export({ format: 'jwk' }), kid: 'first', use: 'sig', alg: 'RS256' }] },
      claims: {
        openid: ['sub'],
        email: ['email', 'email_verified'],
        profile: ['name', 'preferred_username', 'picture', 'groups', 'roles', 'organizations'],
      },
      conformIdTokenClaims: false,
      cookies: { keys: ['cookies of a test'] },
      ttl: { AccessToken: accessTokenSeconds },
      issueRefreshToken: async () => true,
      rotateRefreshToken: true,
      features: { devInteractions: { enabled: false } },
      pkce: { required: () => true },
      interactions: { url: () => '/interaction' },
      findAccount: async (_ctx: unknown, sub: string) =>
        this.people.has(sub) ? { accountId: sub, claims: async () => ({ sub, ...this.people.get(sub) }) } : undefined,
      loadExistingGrant: async (ctx: GrantContext) => {
        const grant = new provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
        grant.addOIDCScope('openid email profile offline_access');
        this.#grants.add(await grant.save());
        return grant;
      },
    });
    // the server's port is known only once it listens
    provider.Client.prototype.redirectUriAllowed = (uri) => {
      const { hostname, pathname } = new URL(uri);
      return /^(127\.0\.0\.1|localhost)$/.test(hostname) && pathname === CALLBACK;
    };
    provider.on('grant.success', ({ oidc }) => {
      const assertion = oidc.body?.client_assertion;
      if (assertion) this.assertions.push(Buffer.from(assertion.split('.')[0]!, 'base64url').toString());
    });
    return provider;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url!, this.url);
    this.requests.set(pathname, (this.requests.get(pathname) ?? 0) + 1);
    if (this.intercept?.(request, response)) return;
    if (pathname === '/interaction') {
      const result = this.next
        ? { login: { accountId: this.next }, consent: {} }
        : { error: 'access_denied', error_description: 'The person declined.' };
      void this.#provider.interactionFinished(request, response, result);
      return;
    }
    if (pathname === '/token' && this.forge) this.#forgeAnswer(response, this.forge);
    void this.#handle(request, response);
  }

  /** Replaces the ID token in the answer. */
  #forgeAnswer(response: ServerResponse, forge: NonNullable<IdentityProvider['forge']>): void {
    const end = response.end.bind(response);
    response.end = ((body: string | Buffer) => {
      const answer = JSON.parse(String(body)) as { id_token: string };
      const [header, payload] = answer.id_token.split('.') as [string, string];
      const forged = forge(JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>);
      const signed = `${header}.${Buffer.from(JSON.stringify(forged.claims)).toString('base64url')}`;
      const key = forged.key ?? this.#key;
      answer.id_token = `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
      const bytes = Buffer.from(JSON.stringify(answer));
      response.setHeader('content-length', bytes.length);
      return end(bytes);
    }) as typeof response.end;
  }
}

interface GrantContext {
  oidc: { client: { clientId: string }; session: { accountId: string } };
}

function clientsWith(key: KeyObject | undefined) {
  const common = {
    redirect_uris: [`http://127.0.0.1${CALLBACK}`],
    grant_types: ['authorization_code', 'refresh_token'],
  };
  const client = { ...common, client_id: CLIENT.id, client_secret: CLIENT.secret };
  if (!key) return [client];
  const keyed = {
    ...common,
    client_id: KEYED_CLIENT,
    token_endpoint_auth_method: 'private_key_jwt',
    token_endpoint_auth_signing_alg: 'ES256',
    jwks: { keys: [{ ...key.export({ format: 'jwk' }), use: 'sig' }] },
  };
  return [client, keyed];
}

/** A browser without scripts: it follows redirects and keeps cookies for each host. */
export class Browser {
  readonly cookies = new Map<string, Map<string, string>>();

  cookie(url: string, name: string): string | undefined {
    return this.cookies.get(new URL(url).host)?.get(name);
  }

  /** Opens a page without following its redirect. */
  async step(url: string): Promise<Response> {
    const jar = this.cookies.get(new URL(url).host) ?? new Map<string, string>();
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { Accept: 'text/html', Cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    this.cookies.set(new URL(url).host, jar);
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
      if (/; *max-age=0|expires=Thu, 01 Jan 1970/i.test(line) || value === '') jar.delete(name!);
      else jar.set(name!, value!);
    }
    return response;
  }

  /** Follows redirects until a page that `stop` accepts, or that is not a redirect. Returns its address. */
  async open(url: string, stop: (url: string) => boolean = () => false): Promise<string> {
    for (let hops = 0; hops < 12; hops++) {
      if (stop(url)) return url;
      const response = await this.step(url);
      const location = response.headers.get('location');
      await response.body?.cancel();
      if (location === null) return url;
      url = new URL(location, url).href;
    }
    throw new Error(`too many redirects, the last to ${url}`);
  }
}
