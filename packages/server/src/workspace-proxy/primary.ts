import type { IssueSignedAppTokenResponse, IssueTokenRequest } from '@ropewalk/contract';
import { AppError, type ErrorCode, errorText } from '@ropewalk/kit';
import { PROXY_TOKEN_HEADER } from '@ropewalk/wire/proxy-link';
import { statusOf } from '../http/status.ts';

const ANSWER_MS = 10_000;
/** Of the server's answer to a token that it does not accept. An answer about a visitor has another one. */
const BAD_TOKEN = 'Invalid workspace proxy token.';

interface CallOptions {
  body?: object;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** The HTTP API of the server for this proxy. */
export class Primary {
  readonly url: string;
  readonly #token: string;

  /** @param url of the server, without a slash at its end */
  constructor(url: string, token: string) {
    this.url = url;
    this.#token = token;
  }

  /** The headers that prove to the server which proxy asks. */
  get credential(): Record<string, string> {
    return { [PROXY_TOKEN_HEADER]: this.#token };
  }

  /**
   * @param path below /api/v2/workspaceproxies/me
   * @throws AppError as the server answers, `unavailable` if it does not answer or does not accept the token
   */
  async call<T>(method: 'GET' | 'POST', path: string, { body, headers = {}, signal }: CallOptions = {}): Promise<T> {
    const timeout = AbortSignal.timeout(ANSWER_MS);
    const answer = await fetch(`${this.url}/api/v2/workspaceproxies/me${path}`, {
      method,
      redirect: 'error',
      headers: { ...headers, ...this.credential, ...(body ? { 'Content-Type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    }).catch((err: Error) => {
      if (signal?.aborted) throw new AppError('canceled', 'The request was canceled.');
      throw this.#unreachable(errorText(err.cause ?? err), err);
    });
    const text = await answer.text().catch((err) => {
      throw this.#unreachable(errorText(err), err);
    });
    if (answer.ok) return (text === '' ? undefined : JSON.parse(text)) as T;
    throw this.#errorOf(answer.status, text);
  }

  /** The token of a grant for a visitor. @throws AppError as `call` does */
  async issue(body: IssueTokenRequest, options: Omit<CallOptions, 'body'>): Promise<string> {
    const answer = await this.call<IssueSignedAppTokenResponse>('POST', '/issue-signed-app-token', {
      ...options,
      body,
    });
    return answer.signed_token_str;
  }

  #unreachable(why: string, cause?: unknown): AppError {
    return new AppError('unavailable', 'This workspace proxy cannot reach its server.', {
      detail: `${this.url} gives no answer: ${why}. Try again in a moment.`,
      cause,
    });
  }

  #errorOf(status: number, text: string): AppError {
    let body: { message?: unknown; detail?: unknown } = {};
    try {
      body = (JSON.parse(text) ?? {}) as typeof body;
    } catch {
      // of a load balancer
      return this.#unreachable(`status ${status}`);
    }
    const { message, detail } = body;
    const found = Object.entries(statusOf).find(([, one]) => one === status)?.[0] as ErrorCode | undefined;
    if (!found || typeof message !== 'string') return this.#unreachable(`status ${status}`);
    if (status === 401 && message === BAD_TOKEN)
      return new AppError('unavailable', 'The server does not accept the token of this workspace proxy.', {
        detail: typeof detail === 'string' ? detail : 'Get a new one with: coder wsproxy regenerate-token',
      });
    return new AppError(found, message, typeof detail === 'string' ? { detail } : {});
  }
}
