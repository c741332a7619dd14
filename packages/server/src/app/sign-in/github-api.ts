import { AppError, errorText } from '@ropewalk/kit';
import type { Services } from '../context/context.ts';
import { type BoundedRequest, boundedFetch } from '../outbound/fetch.ts';
import type { CallSource } from '../outbound/provider-calls.ts';

/** What GitHub answers where it gives tokens and codes. */
export interface TokenAnswer {
  access_token?: string;
  refresh_token?: string;
  expires_in?: number;
  error?: string;
  error_description?: string;
}

export interface GithubUser {
  id: number;
  login: string;
  name?: string | null;
  avatar_url?: string;
}

/** The requests to GitHub, or to an installation of GitHub Enterprise. Each throws AppError `unavailable` without an answer. */
export class GithubApi {
  /** Where people use it. */
  readonly web: string;
  readonly #api: string;
  readonly #clientId: string;
  readonly #closed: AbortSignal;

  constructor(config: Services['config'], closed: AbortSignal) {
    const enterprise = config.oauth2GithubEnterpriseBaseUrl.replace(/\/$/, '');
    this.web = enterprise || 'https://github.com';
    this.#api = enterprise ? `${enterprise}/api/v3` : 'https://api.github.com';
    this.#clientId = config.oauth2GithubClientId;
    this.#closed = closed;
  }

  /** Sends values to a page for programs, as this server's app. */
  async post<T>(source: CallSource, path: string, values: Record<string, string>): Promise<T> {
    const response = await this.#request(source, `${this.web}${path}`, {
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ client_id: this.#clientId, ...values }).toString(),
    });
    return jsonOf<T>(response);
  }

  /** An answer of the API to a person's token, whatever its status. */
  get(source: CallSource, path: string, token: string): Promise<Response> {
    return this.#request(source, `${this.#api}${path}`, {
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${token}`,
        'user-agent': 'coder',
        'x-github-api-version': '2022-11-28',
      },
    });
  }

  /** Reads JSON from the API. @throws AppError `unauthenticated` if GitHub does not accept the token */
  async read<T>(source: CallSource, path: string, token: string): Promise<T> {
    const response = await this.get(source, path, token);
    if (response.status === 401) throw new AppError('unauthenticated', 'GitHub no longer accepts this sign-in.');
    if (!response.ok) {
      throw new AppError('unavailable', 'GitHub did not answer as expected.', {
        detail: `${path.replace(/\?.*$/, '')}: status ${response.status}. Try again later.`,
      });
    }
    return jsonOf<T>(response);
  }

  async #request(source: CallSource, url: string, options: BoundedRequest): Promise<Response> {
    try {
      return await boundedFetch(url, { ...options, signal: this.#closed, call: { name: 'github-login', source } });
    } catch (err) {
      throw new AppError('unavailable', 'GitHub did not answer as expected.', {
        detail: `${new URL(url).host}: ${errorText(err)}. Try again later.`,
        cause: err,
      });
    }
  }
}

/** @throws AppError `unavailable` if the body is not JSON */
export async function jsonOf<T>(response: Response): Promise<T> {
  try {
    return (await response.json()) as T;
  } catch (err) {
    throw new AppError('unavailable', 'GitHub did not answer as expected.', {
      detail: `It answered with status ${response.status} and without JSON. Try again later.`,
      cause: err,
    });
  }
}
