import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { AppError, errorText } from '@ropewalk/kit';
import * as client from 'openid-client';
import type { Services } from '../context/context.ts';
import { basicCredentials, boundedFetch } from '../outbound/fetch.ts';

/** How long metadata is used before it is fetched again, in ms. */
const METADATA_MS = 3_600_000;
/** How long a failed discovery is not repeated, in ms. */
const RETRY_MS = 1_000;
/** How far ahead the clock of a provider may be, in seconds. */
export const CLOCK_TOLERANCE = 30;

/** What the provider published about itself, and how this server authenticates itself there. */
export interface Discovered {
  metadata: client.ServerMetadata;
  auth: client.ClientAuth;
  configuration: client.Configuration;
}

/** Discovers the provider's metadata, and keeps it for a while. The first discovery begins immediately. */
export class OidcDiscovery {
  readonly #services: Services;
  readonly #closed: AbortSignal;
  readonly #timeoutMs: number | undefined;
  #found: (Discovered & { at: number }) | undefined;
  #failed: { at: number; err: AppError } | undefined;
  #searching: Promise<void> | undefined;

  constructor(services: Services, closed: AbortSignal, timeoutMs: number | undefined) {
    this.#services = services;
    this.#closed = closed;
    this.#timeoutMs = timeoutMs;
    // a provider that answers later is found at the first sign-in
    void this.#search();
  }

  /** @throws AppError `unavailable` if the provider was never discovered */
  async provider(): Promise<Discovered> {
    const now = this.#services.clock.monotonic();
    const isFresh = this.#found && now - this.#found.at < METADATA_MS;
    if (!isFresh && !(this.#failed && now - this.#failed.at < RETRY_MS)) await this.#search();
    // old metadata is better than no metadata
    if (!this.#found) throw this.#failed!.err;
    return this.#found;
  }

  configure(metadata: client.ServerMetadata, auth: client.ClientAuth, using = this.fetch): client.Configuration {
    const { oidcClientId, oidcIssuerUrl } = this.#services.config;
    const made = new client.Configuration(metadata, oidcClientId, { [client.clockTolerance]: CLOCK_TOLERANCE }, auth);
    made[client.customFetch] = using;
    client.enableNonRepudiationChecks(made);
    if (!oidcIssuerUrl.startsWith('https:')) client.allowInsecureRequests(made);
    return made;
  }

  readonly fetch: client.CustomFetch = async (url, options) => {
    const { method, headers, body, signal } = options;
    const either = signal ? AbortSignal.any([signal, this.#closed]) : this.#closed;
    const grant = body instanceof URLSearchParams ? body.get('grant_type') : null;
    const source = grant === 'refresh_token' ? 'TokenSource' : 'Exchange';
    const call = grant === null ? undefined : ({ name: 'oidc-login', source } as const);
    return boundedFetch(url, { method, headers, body: body as never, signal: either, call }, this.#timeoutMs);
  };

  /** One search at a time. Never rejects. */
  #search(): Promise<void> {
    this.#searching ??= this.#discover().finally(() => {
      this.#searching = undefined;
    });
    return this.#searching;
  }

  async #discover(): Promise<void> {
    const { config, clock, log } = this.#services;
    const { oidcIssuerUrl, oidcClientId, dangerousOidcSkipIssuerChecks: anyIssuer } = config;
    const issuer = oidcIssuerUrl.replace(/\/$/, '');
    try {
      const auth = await clientAuth(config);
      // the address of the document itself: its issuer is then not compared with the configured one
      const address = new URL(anyIssuer ? `${issuer}/.well-known/openid-configuration` : oidcIssuerUrl);
      const discovered = await client.discovery(address, oidcClientId, undefined, auth, {
        [client.customFetch]: this.fetch,
        execute: address.protocol === 'https:' ? [] : [client.allowInsecureRequests],
      });
      const metadata = discovered.serverMetadata();
      this.#found = { metadata, auth, configuration: this.configure(metadata, auth), at: clock.monotonic() };
      this.#failed = undefined;
    } catch (err) {
      const reason = describe(err);
      log.warn('could not discover the OpenID Connect provider', { issuer: oidcIssuerUrl, err: reason });
      const error = new AppError('unavailable', 'Signing in with the identity provider does not work at the moment.', {
        detail: `The provider at ${issuer} could not be used: ${reason}. Try again later, or ask an administrator.`,
        cause: err,
      });
      this.#failed = { at: clock.monotonic(), err: error };
    }
  }
}

/** How the server authenticates itself: a key with its certificate, a secret, or not at all. */
async function clientAuth(config: Services['config']): Promise<client.ClientAuth> {
  const { oidcClientKeyFile, oidcClientCertFile, oidcClientSecret } = config;
  if (oidcClientKeyFile !== '') {
    const key = createPrivateKey(await readFile(oidcClientKeyFile));
    const certificate = oidcClientCertFile === '' ? undefined : new X509Certificate(await readFile(oidcClientCertFile));
    const algorithm =
      key.asymmetricKeyType === 'ec'
        ? { name: 'ECDSA', namedCurve: 'P-256' }
        : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
    const bytes = key.export({ type: 'pkcs8', format: 'der' });
    const signing = await webcrypto.subtle.importKey('pkcs8', new Uint8Array(bytes), algorithm, false, ['sign']);
    const thumbprint = certificate && Buffer.from(certificate.fingerprint.replaceAll(':', ''), 'hex');
    return (as, ...rest) =>
      client.PrivateKeyJwt(signing as never, {
        [client.modifyAssertion](header, payload) {
          if (thumbprint) header['x5t'] = thumbprint.toString('base64url');
          if (as.token_endpoint) payload['aud'] = as.token_endpoint;
        },
      })(as, ...rest);
  }
  if (oidcClientSecret === '') return client.None();
  return (as, self, body, headers) => {
    if (as.token_endpoint_auth_methods_supported?.includes('client_secret_post')) {
      client.ClientSecretPost(oidcClientSecret)(as, self, body, headers);
    } else headers.set('authorization', basicCredentials(self.client_id, oidcClientSecret));
  };
}

/** The texts of an error and its causes. They contain no tokens. */
export function describe(err: unknown): string {
  const texts: string[] = [];
  for (let at = err; at instanceof Error && texts.length < 4; at = at.cause) texts.push(at.message);
  return texts.length > 0 ? texts.join(': ') : errorText(err);
}
