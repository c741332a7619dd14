import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiPath } from '../api-path.ts';
import { type RouteDef, routes } from '../routes/index.ts';
import { type UpstreamClientCall, upstreamClientCalls } from './facts.ts';

// Upstream's API document names other statuses than its programs expect, and a Go client takes any status but the expected
// one for an error.

const VERSIONS = ['2.25', '2.36'] as const;

const pathKey = (path: string) => path.replaceAll(/\{[^}]*\}/g, '{}').replace(/\/$/, '');
const ours = new Map<string, RouteDef>(
  Object.entries(routes).map(([key, def]) => {
    const [method, path] = key.split(' ') as [string, string];
    return [`${method} ${pathKey(apiPath(path))}`, def];
  }),
);
const keyOf = ({ method, path }: UpstreamClientCall) => `${method} ${pathKey(path)}`;

/** The statuses of a route's successful answers. A log that can be followed also becomes a WebSocket. */
function statusesOf(def: RouteDef): number[] {
  const upgrades = def.stream === 'websocket' || def.query?.properties['follow'] !== undefined;
  return [...(def.stream === 'websocket' ? [] : Object.keys(def.responses).map(Number)), ...(upgrades ? [101] : [])];
}

/** Returns why a client of this version would take a successful answer for an error. */
function misread(call: UpstreamClientCall, def: RouteDef, version: (typeof VERSIONS)[number]): string[] {
  const wanted = call[version] ?? [];
  if (wanted.length === 0) return [];
  const sent = statusesOf(def);
  // a client that follows a log only reads the WebSocket
  if (wanted.every((status) => status === 101)) return sent.includes(101) ? [] : [`${keyOf(call)}: no WebSocket`];
  const wrong = sent.filter((status) => status !== 101 && !wanted.includes(status));
  return wrong.map((status) => `${keyOf(call)}: ${status}, and version ${version} expects ${wanted.join(' or ')}`);
}

test('each call of upstream’s client gets a status that it takes for success', () => {
  const calls = upstreamClientCalls();
  const compared = calls.flatMap((call) => {
    const def = ours.get(keyOf(call));
    return def ? [{ call, def }] : [];
  });
  assert.ok(compared.length > 190, `${compared.length}`);
  assert.deepEqual(
    compared.flatMap(({ call, def }) => VERSIONS.flatMap((version) => misread(call, def, version))),
    [],
  );
});

test('the calls of version 2.25 without a route here belong to features that are missing here', () => {
  const missing = upstreamClientCalls().filter((call) => call['2.25'] && !ours.has(keyOf(call)));
  const others = missing.filter(
    ({ method, path }) =>
      !MISSING_FEATURES.some((start) => path.startsWith(start)) &&
      !(MISSING_CHANGES.some((start) => path.startsWith(start)) && (method !== 'GET' || path.endsWith('{}'))),
  );
  assert.deepEqual(others.map(keyOf), []);
});

/** Where the calls of features begin that this server does not have. missing-routes.txt lists each route. */
/** The protocol of OAuth 2 is outside of the contract: packages/server/src/http/oauth2/oauth2.test.ts tests it. */
const MISSING_FEATURES = ['/oauth2/'];
/** Nothing here needs a license. */
const MISSING_CHANGES = ['/api/v2/licenses'];
