import type { TObject, TSchema } from 'typebox';
import type { UnknownKeys } from './unknown-keys.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * Who may call: `none` means anyone. `optional` means anyone, and more for a user's session or token. `session` requires a user's session or token. `agent` requires a workspace agent's
 * token. `daemon` requires a provisioner daemon's key, pre-shared key, user token or the installation's secret. `proxy`
 * requires the token of a workspace proxy.
 */
export type RouteAuth = 'none' | 'optional' | 'session' | 'agent' | 'daemon' | 'proxy';

interface RouteBase {
  tag: string;
  auth: RouteAuth;
  /** One sentence for the API document. */
  summary?: string;
  params?: TObject;
  query?: TObject;
  /** Media types of a body that is bytes instead of JSON. */
  bodyTypes?: readonly string[];
  /** Set if the answer is not one JSON body: a WebSocket, server-sent events, JSON lines, or bytes of some media type. */
  stream?: 'websocket' | 'sse' | 'lines' | 'bytes';
  /** Keyed by status. `Nothing` is an answer without a body. */
  responses: Readonly<Record<number, TSchema | typeof Nothing>>;
}

/** A route with a body declares what happens to keys that it does not have. Without a body, keys are ignored by default. */
export type RouteDef = RouteBase &
  ({ body: TSchema; unknownKeys: UnknownKeys } | { body?: undefined; unknownKeys?: UnknownKeys });

/** Stands for the schema of an answer without a body. */
export const Nothing = Symbol('nothing');

/** Declares a route: its literal type gives handlers and clients the types of parameters, body and answers. */
export function route<const R extends RouteDef>(def: R): R {
  return def;
}
