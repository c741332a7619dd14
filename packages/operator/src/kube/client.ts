import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { retry } from '@ropewalk/kit';
import type { Connection } from './connection.ts';
import { apiVersionOf, type KubeObject, type Resource } from './types.ts';

/** An answer of the API server with an error status. */
export class KubeError extends Error {
  readonly status: number;
  /** Kubernetes' name of the error, such as `AlreadyExists`. */
  readonly reason: string;
  constructor(status: number, reason: string, message: string) {
    super(message);
    this.name = 'KubeError';
    this.status = status;
    this.reason = reason;
  }
}

/** Whether the API server answered that the object does not exist. */
export const isNotFound = (err: unknown): boolean => err instanceof KubeError && err.status === 404;
/** For `catch`: what is gone already needs no deletion. */
export const ignoreNotFound = (err: unknown): void => {
  if (!isNotFound(err)) throw err;
};
/** Someone else changed or created the object first. */
export const isConflict = (err: unknown): boolean => err instanceof KubeError && err.status === 409;
/** The resource version of a list or watch is older than what the API server keeps. */
export const isExpired = (err: unknown): boolean => err instanceof KubeError && err.status === 410;

/** The API server has too much to do, or it starts. */
const isBusy = (err: unknown): boolean => err instanceof KubeError && (err.status === 429 || err.status === 503);
/** How often it sends a request to an API server that is busy. */
const ATTEMPTS = 5;

export interface List<T> {
  items: T[];
  resourceVersion: string;
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | { type: 'BOOKMARK'; object: { metadata: { resourceVersion: string } } }
  | { type: 'ERROR'; object: { code: number; reason: string; message: string } };

export interface Scope {
  /** Every namespace if absent. */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
}

export interface KubeClient {
  get<T extends KubeObject>(resource: Resource, namespace: string, name: string): Promise<T>;
  list<T extends KubeObject>(resource: Resource, scope: Scope, signal?: AbortSignal): Promise<List<T>>;
  /** Yields changes after `resourceVersion` until the API server ends the watch. */
  watch<T extends KubeObject>(
    resource: Resource,
    scope: Scope,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>>;
  create<T extends KubeObject>(resource: Resource, object: T): Promise<T>;
  /** Replaces an object. Its resource version must be the current one. */
  replace<T extends KubeObject>(resource: Resource, object: T): Promise<T>;
  /** Server-side apply under the operator's name. Takes fields over from other managers. */
  apply<T extends KubeObject>(resource: Resource, object: T, subresource?: string): Promise<T>;
  /** Server-side apply that fails with a conflict if another manager has set one of the fields to another value. */
  applyGently<T extends KubeObject>(resource: Resource, object: T): Promise<T>;
  /** A JSON merge patch. */
  merge<T extends KubeObject>(
    resource: Resource,
    at: { namespace: string; name: string },
    patch: object,
    subresource?: string,
  ): Promise<T>;
  /** Deletes an object, and in the background what it owns. A pod without a grace period is gone immediately. */
  delete(resource: Resource, namespace: string, name: string, gracePeriodSeconds?: number): Promise<void>;
  /** The number of requests so far. A watch counts once. */
  readonly requests: number;
}

/** The field manager of every write. Kubernetes tracks with it who owns a field. */
export const FIELD_MANAGER = 'coder-operator';

/** No answer within this time is a failure. Watches are exempt: they are silent for long. */
const TIMEOUT_MS = 30_000;
/** The API server ends a watch after this time, and the informer opens the next one. */
const WATCH_SECONDS = 300;
/** A watch without changes is silent until the API server ends it. */
const WATCH_SILENCE_MS = (WATCH_SECONDS + 30) * 1_000;
/** Objects in one answer to a list. Larger answers need more memory. */
const PAGE = 100;

interface Send {
  query?: Record<string, string>;
  body?: unknown;
  contentType?: string;
  signal?: AbortSignal | undefined;
  timeoutMs?: number;
}

export function createKubeClient(connection: Connection): KubeClient {
  const requests = new ApiRequests(connection);
  const apply = <T extends KubeObject>(resource: Resource, object: T, subresource: string, force: boolean) =>
    requests.call<T>('PATCH', pathOf(resource, object.metadata.namespace, object.metadata.name, subresource), {
      query: { fieldManager: FIELD_MANAGER, force: String(force) },
      contentType: 'application/apply-patch+yaml',
      body: typed(resource, object),
    });
  return {
    get requests() {
      return requests.count;
    },
    get: (resource, namespace, name) => requests.call('GET', pathOf(resource, namespace, name)),
    list: (resource, scope, signal) => list(requests, resource, scope, signal),
    watch: (resource, scope, resourceVersion, signal) => watch(requests, resource, scope, resourceVersion, signal),
    create: (resource, object) =>
      requests.call('POST', pathOf(resource, object.metadata.namespace), {
        query: { fieldManager: FIELD_MANAGER },
        body: typed(resource, object),
      }),
    replace: (resource, object) =>
      requests.call('PUT', pathOf(resource, object.metadata.namespace, object.metadata.name), {
        query: { fieldManager: FIELD_MANAGER },
        body: typed(resource, object),
      }),
    apply: (resource, object, subresource = '') => apply(resource, object, subresource, true),
    applyGently: (resource, object) => apply(resource, object, '', false),
    merge: (resource, { namespace, name }, patch, subresource = '') =>
      requests.call('PATCH', pathOf(resource, namespace, name, subresource), {
        query: { fieldManager: FIELD_MANAGER },
        contentType: 'application/merge-patch+json',
        body: patch,
      }),
    async delete(resource, namespace, name, gracePeriodSeconds) {
      await requests.call('DELETE', pathOf(resource, namespace, name), {
        body: { propagationPolicy: 'Background', ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }) },
      });
    },
  };
}

/** Sends requests to the API server and counts them. */
class ApiRequests {
  readonly #connection: Connection;
  #count = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  get count(): number {
    return this.#count;
  }

  /** Sends a request and reads its JSON. */
  async call<T>(method: string, path: string, send: Send = {}): Promise<T> {
    return JSON.parse(await textOf(await this.open(method, path, send))) as T;
  }

  /** Repeats a request that the API server did not begin to process. */
  open(method: string, path: string, send: Send): Promise<IncomingMessage> {
    let attempts = 1;
    return retry(() => this.#openOnce(method, path, send), {
      baseMs: 100,
      capMs: 2_000,
      jitter: 0.5,
      retryable: (err) => isBusy(err) && attempts++ < ATTEMPTS,
      ...(send.signal ? { signal: send.signal } : {}),
    });
  }

  /** Sends a request once. @throws KubeError for an error status */
  async #openOnce(method: string, path: string, send: Send): Promise<IncomingMessage> {
    const { query = {}, body, contentType = 'application/json', signal, timeoutMs = TIMEOUT_MS } = send;
    const url = new URL(`${this.#connection.server}${path}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const options = await this.#connection.options();
    const text = body === undefined ? undefined : JSON.stringify(body);
    this.#count++;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const req = (url.protocol === 'https:' ? httpsRequest : httpRequest)(
        url,
        {
          ...options,
          method,
          headers: {
            ...(options.headers as OutgoingHttpHeaders | undefined),
            Accept: 'application/json',
            ...(text === undefined ? {} : { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(text) }),
          },
          ...(signal ? { signal } : {}),
        },
        resolve,
      );
      req.setTimeout(timeoutMs, () => req.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)));
      req.once('error', reject);
      req.end(text);
    });
    const { statusCode = 0 } = response;
    if (statusCode < 200 || statusCode > 299) throw errorOf(statusCode, await textOf(response), `${method} ${path}`);
    return response;
  }
}

/** Reads every page of a list. */
async function list<T extends KubeObject>(
  requests: ApiRequests,
  resource: Resource,
  { namespace, ...selectors }: Scope,
  signal: AbortSignal | undefined,
): Promise<List<T>> {
  const path = pathOf(resource, namespace);
  const items: T[] = [];
  let next = '';
  for (;;) {
    const query = { limit: String(PAGE), ...given(selectors), ...(next === '' ? {} : { continue: next }) };
    const page = await requests.call<Page<T>>('GET', path, { query, signal });
    items.push(...page.items);
    next = page.metadata.continue ?? '';
    if (next === '') return { items, resourceVersion: page.metadata.resourceVersion };
  }
}

async function* watch<T extends KubeObject>(
  requests: ApiRequests,
  resource: Resource,
  { namespace, ...selectors }: Scope,
  resourceVersion: string,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<T>> {
  const response = await requests.open('GET', pathOf(resource, namespace), {
    query: {
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion,
      timeoutSeconds: String(WATCH_SECONDS),
      ...given(selectors),
    },
    signal,
    timeoutMs: WATCH_SILENCE_MS,
  });
  let rest = '';
  response.setEncoding('utf8');
  for await (const part of response as AsyncIterable<string>) {
    const lines = (rest + part).split('\n');
    rest = lines.pop()!;
    for (const line of lines) if (line !== '') yield JSON.parse(line) as WatchEvent<T>;
  }
}

/** One answer to a list. */
interface Page<T> {
  items: T[];
  metadata: { resourceVersion: string; continue?: string };
}

/** The object with its version and kind, as the API server expects it in a request. */
const typed = (resource: Resource, object: KubeObject): object => ({
  apiVersion: apiVersionOf(resource),
  kind: resource.kind,
  ...object,
});

/** The selectors that are set. */
const given = (selectors: Omit<Scope, 'namespace'>): Record<string, string> =>
  Object.fromEntries(Object.entries(selectors).filter((entry): entry is [string, string] => Boolean(entry[1])));

function pathOf(resource: Resource, namespace?: string, name = '', subresource = ''): string {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  return [root, ...(namespace ? ['namespaces', namespace] : []), resource.plural, name, subresource]
    .filter((part) => part !== '')
    .join('/');
}

async function textOf(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8');
  let text = '';
  for await (const part of response as AsyncIterable<string>) text += part;
  return text;
}

function errorOf(status: number, text: string, request: string): KubeError {
  try {
    const { reason, message } = JSON.parse(text) as { reason?: string; message?: string };
    if (message) return new KubeError(status, reason ?? '', message);
  } catch {
    // a proxy or an API server that is starting answers with plain text
  }
  return new KubeError(status, '', `${request}: the API server answered ${status} ${text.slice(0, 200)}`.trim());
}
