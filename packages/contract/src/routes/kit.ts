import type { TObject, TSchema } from 'typebox';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * Who may call: `none` anybody; `session` a person's session or token; `agent` a workspace agent's token;
 * `daemon` a provisioner daemon by key, pre-shared key, user token or the installation's secret.
 */
export type RouteAuth = 'none' | 'session' | 'agent' | 'daemon';

export interface RouteDef {
  tag: string;
  auth: RouteAuth;
  /** One sentence for the API document. */
  summary?: string;
  params?: TObject;
  query?: TObject;
  body?: TSchema;
  /** The body is bytes of these media types instead of JSON. */
  bodyTypes?: readonly string[];
  /** The answer is not one JSON body: a WebSocket, server-sent events, or bytes of some media type. */
  stream?: 'websocket' | 'sse' | 'bytes';
  /** By status. `Nothing` is an answer without a body. */
  responses: Readonly<Record<number, TSchema | typeof Nothing>>;
}

/** No body. */
export const Nothing = Symbol('nothing');

export function route<const R extends RouteDef>(def: R): R {
  return def;
}
