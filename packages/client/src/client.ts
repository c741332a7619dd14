import type { RouteAnswer, RouteBody, RouteKey, RouteParams, RouteQuery } from '@ropewalk/contract';
import { apiPath } from '@ropewalk/contract/api-path';
import type { FetchAnswer, OnAnswer } from './answer.ts';
import { errorOf } from './errors.ts';

/** The part of `fetch` that the client uses, so that a browser's, Node's and our own fit. */
export type Fetch = (
  url: string,
  init: {
    method: string;
    headers: Record<string, string>;
    body?: string | Uint8Array<ArrayBuffer>;
    signal?: AbortSignal;
  },
) => Promise<FetchAnswer>;

/** PEM texts. `ca` replaces the built-in authorities. */
export interface ClientTls {
  ca?: string;
  /** The client certificate and its key. */
  cert?: string;
  key?: string;
}

export interface ClientOptions {
  /** Base URL of the server, which may contain a path. */
  url: string;
  /** Session token. Empty for anonymous requests. */
  token: string;
  fetch: Fetch;
  headers?: Record<string, string>;
  /** For connections that the client opens next to `fetch`: streams and relays. */
  tls?: ClientTls;
  /** Whether the program itself reaches agents only through relays. Default false. */
  blocksDirect?: boolean;
  /** The only workspace proxy that streams may use: its name. `primary`: none. Default: the fastest. */
  region?: string;
  /** Aborts every call. */
  signal?: AbortSignal;
  onAnswer?: OnAnswer;
}

type Part<N extends string, V> = V extends undefined ? { [K in N]?: undefined } : { [K in N]: V };
type QueryPart<V> = V extends undefined ? { query?: undefined } : { query?: V };
export type CallInput<K extends RouteKey> = Part<'params', RouteParams<K>> &
  QueryPart<RouteQuery<K>> &
  // A few upstream routes accept bodies that the API document does not show.
  (RouteBody<K> extends undefined ? { body?: unknown } : { body: RouteBody<K> });
type Input<K extends RouteKey> =
  Record<never, never> extends CallInput<K> ? [input?: CallInput<K>] : [input: CallInput<K>];

/** A client of one server with one token. Every call rejects with UnreachableError if the server does not answer. */
export interface Client {
  readonly url: string;
  readonly token: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly onAnswer?: OnAnswer;
  readonly blocksDirect: boolean;
  readonly region: string;
  readonly tls: ClientTls;
  /**
   * Calls a route of the contract. @throws ApiError for an answer with an error status, UnreachableError without an
   * answer.
   */
  call<K extends RouteKey>(route: K, ...input: Input<K>): Promise<RouteAnswer<K>>;
  /** Calls a route that answers with bytes: GET, or POST with this body as JSON. */
  bytes(path: string, body?: object): Promise<Uint8Array<ArrayBuffer>>;
  /** Stores a file on the server and returns its id. */
  upload(bytes: Uint8Array<ArrayBuffer>, contentType: string): Promise<string>;
  /** Returns status, headers and text of any path, below /api/v2 unless it begins with /api. */
  raw(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; headers: FetchAnswer['headers']; text: string }>;
}

export function createClient(options: ClientOptions): Client {
  const url = options.url.replace(/\/+$/, '');
  const send = async (method: string, path: string, body?: string | Uint8Array<ArrayBuffer>, contentType?: string) => {
    const answer = await options.fetch(`${url}${apiPath(path)}`, {
      method,
      headers: {
        ...options.headers,
        'Coder-Session-Token': options.token,
        Accept: 'application/json',
        ...(contentType ? { 'Content-Type': contentType } : {}),
      },
      ...(body === undefined ? {} : { body }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
    options.onAnswer?.(answer.headers, 'call');
    return answer;
  };
  const json = async (answer: FetchAnswer, request: string): Promise<unknown> => {
    const text = await answer.text();
    if (answer.status < 200 || answer.status > 299) throw errorOf(answer, text, request);
    if (text === '') return undefined;
    try {
      return JSON.parse(text);
    } catch {
      throw errorOf(answer, text, request);
    }
  };
  const checked = async (answer: FetchAnswer, request: string) => {
    if (answer.status < 200 || answer.status > 299) throw errorOf(answer, await answer.text(), request);
    return new Uint8Array(await answer.arrayBuffer());
  };
  return {
    url,
    token: options.token,
    headers: options.headers ?? {},
    blocksDirect: options.blocksDirect ?? false,
    region: options.region ?? '',
    tls: options.tls ?? {},
    ...(options.onAnswer ? { onAnswer: options.onAnswer } : {}),
    async call(route: string, ...rest: unknown[]): Promise<never> {
      const input = rest[0] as { params?: object; query?: object; body?: unknown } | undefined;
      const at = route.indexOf(' ');
      const method = route.slice(0, at);
      const { params = {}, query, body } = input ?? {};
      const path = fillPath(route.slice(at + 1), params as Record<string, string>) + queryText(query);
      const text = body === undefined ? undefined : JSON.stringify(body);
      const answer = await send(method, path, text, text === undefined ? undefined : 'application/json');
      return (await json(answer, `${method} ${path}`)) as never;
    },
    async bytes(path, body) {
      if (body === undefined) return checked(await send('GET', path), `GET ${path}`);
      return checked(await send('POST', path, JSON.stringify(body), 'application/json'), `POST ${path}`);
    },
    async upload(bytes, contentType) {
      const answer = await send('POST', '/files', bytes, contentType);
      return ((await json(answer, 'POST /files')) as { hash: string }).hash;
    },
    async raw(method, path, body) {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const answer = await send(method, path, text, text === undefined ? undefined : 'application/json');
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    },
  };
}

function fillPath(path: string, params: Record<string, string>): string {
  return path.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined || value === '') throw new TypeError(`no value for ${name} in ${path}`);
    return encodeURIComponent(value);
  });
}

function queryText(query: object | undefined): string {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== '');
  if (pairs.length === 0) return '';
  return `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`;
}
