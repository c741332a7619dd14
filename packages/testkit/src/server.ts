import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { apiPath, Nothing, type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { type Clock, createLogger, type Logger, silentLogger } from '@ropewalk/kit';
import { dashboardFolder, type FindBinary, loadConfig, type RunningServer, startServer } from '@ropewalk/server';
import { Ajv, type ValidateFunction } from 'ajv';
import { assertUpstreamShape } from './facts.ts';
import { removeKept } from './kept.ts';
import { freshDatabase } from './postgres.ts';
import { startRequestBalancer } from './request-balancer.ts';

export interface Answer<T = unknown> {
  status: number;
  headers: Headers;
  body: T;
}

export interface Call {
  /** Session token. Default: the first user's. `null` sends none. */
  token?: string | null;
  body?: unknown;
  /** Sent unchanged, with this content type. */
  raw?: { type: string; data: Uint8Array | string };
  headers?: Record<string, string>;
}

/** The server of a test, which runs in the process of the test. `stop` also removes its folders. */
export interface TestServer extends RunningServer {
  configDir: string;
  databaseUrl: string;
  /** The token of the first user, `admin`, an owner. */
  adminToken: string;
  /** Calls a route and checks a successful answer against the contract. */
  api<T = unknown>(method: string, path: string, call?: Call): Promise<Answer<T>>;
  stop(): Promise<void>;
}

export const ADMIN = { username: 'admin', email: 'admin@example.com', password: 'correct horse battery' };

export interface TestServerOptions {
  env?: Record<string, string>;
  log?: Logger;
  /** Whether to skip creating the first user. */
  bare?: boolean;
  /** Uses the database of this server, as a second server of the same deployment. Stop it before the other one. */
  joins?: TestServer;
  /** Finds the executables to download. Default: none exist. */
  findBinary?: FindBinary;
  /** A folder with a built dashboard. Default: the checkout's, which is built when a test loads a page. */
  dashboard?: string;
  /** Replaces the command of the built-in daemons' process. */
  daemonCommand?: readonly string[];
  /** The files and folders that `daemonCommand` consists of. */
  programPaths?: readonly string[];
  clock?: Clock;
}

const selfCommand = (name: string) => [
  process.execPath,
  join(import.meta.dirname, '../../cli/src/main.ts'),
  'provisioner',
  name,
];

/**
 * Starts the real server in this process, on its own database, without daemons and rate limits unless `env` enables
 * them. With TEST_SERVERS=2 it starts two, which answer requests in turn.
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  return process.env['TEST_SERVERS'] === '2' && !options.joins ? startTwo(options) : startOne(options);
}

/** Two servers of one deployment behind a balancer. Only `url` and `api` use both. */
async function startTwo(options: TestServerOptions): Promise<TestServer> {
  const balancer = await startRequestBalancer();
  const { url } = balancer;
  try {
    const first = await startOne({ ...options, env: { CODER_ACCESS_URL: url, ...options.env }, bare: true });
    const second = await startOne({
      ...options,
      env: { CODER_ACCESS_URL: url, ...options.env, CODER_PROVISIONER_DAEMONS: '0' },
      joins: first,
    });
    balancer.use([second.url, first.url]);
    const server: TestServer = {
      ...first,
      url,
      api: (method, path, call) => apiCall(url, server.adminToken, method, path, call),
      async stop() {
        await second.stop();
        await first.stop();
        await balancer.close();
      },
    };
    if (!options.bare) server.adminToken = await createFirst(server);
    return server;
  } catch (err) {
    await balancer.close();
    throw err;
  }
}

async function startOne(options: TestServerOptions): Promise<TestServer> {
  const { joins } = options;
  const database = joins ? { url: joins.databaseUrl, drop: async () => {} } : await freshDatabase({ forServer: true });
  const configDir = mkdtempSync(join(tmpdir(), 'platform-server-'));
  const clean = async () => {
    rmSync(configDir, { recursive: true, force: true });
    removeKept(configDir);
    await database.drop();
  };
  const { config, sources } = loadConfig({
    env: {
      CODER_PG_CONNECTION_URL: database.url,
      CODER_HTTP_ADDRESS: '127.0.0.1:0',
      CODER_CACHE_DIRECTORY: join(configDir, 'cache'),
      CODER_PROVISIONER_DAEMONS: '0',
      CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'true',
      // a test or a benchmark may build hundreds of workspaces as one person
      CODER_MAX_WORKSPACES_PER_USER: '0',
      CODER_MAX_PENDING_JOBS_PER_USER: '0',
      // a test machine may reach no other, and each health check would wait for that
      CODER_DERP_SERVER_STUN_ADDRESSES: 'disable',
      ...options.env,
    },
  });
  const log = options.log ?? (process.env['TEST_LOG'] ? createLogger({ level: 'debug' }) : silentLogger);
  const running = await startServer({
    config,
    sources,
    configDir,
    log,
    daemonCommand: options.daemonCommand ?? selfCommand('builtin'),
    launcherCommand: [process.execPath, fileURLToPath(import.meta.resolve('@ropewalk/provisioner/isolation/entry'))],
    ...(options.programPaths ? { programPaths: options.programPaths } : {}),
    findBinary: options.findBinary ?? (async () => undefined),
    ...(options.dashboard ? { dashboard: dashboardFolder(options.dashboard) } : {}),
    env: process.env,
    ...(options.clock ? { clock: options.clock } : {}),
  }).catch(async (err) => {
    await clean();
    throw err;
  });
  const server: TestServer = {
    ...running,
    configDir,
    databaseUrl: database.url,
    adminToken: joins?.adminToken ?? '',
    api: (method, path, call) => apiCall(running.url, server.adminToken, method, path, call),
    async stop() {
      await running.close();
      await clean();
    },
  };
  if (!options.bare && !joins) server.adminToken = await createFirst(server);
  return server;
}

/** Creates the first user and returns their token. */
async function createFirst(server: TestServer): Promise<string> {
  const made = await server.api('POST', '/users/first', { token: null, body: ADMIN });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return logIn(server, ADMIN.email, ADMIN.password);
}

export async function logIn(server: Pick<TestServer, 'api'>, email: string, password: string): Promise<string> {
  const { status, body } = await server.api<{ session_token: string }>('POST', '/users/login', {
    token: null,
    body: { email, password },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body.session_token;
}

/** Creates a signed-in user with these site roles, member of the default organization. */
export async function createPerson(
  server: TestServer,
  name: string,
  roles: string[] = [],
): Promise<{ id: string; token: string }> {
  const email = `${name}@example.com`;
  const password = `${name} correct horse`;
  const organizations = await server.api<{ id: string }[]>('GET', '/organizations');
  const made = await server.api<{ id: string }>('POST', '/users', {
    body: { username: name, email, password, login_type: 'password', organization_ids: [organizations.body[0]!.id] },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  if (roles.length > 0) {
    const put = await server.api('PUT', `/users/${made.body.id}/roles`, { body: { roles } });
    assert.equal(put.status, 200, JSON.stringify(put.body));
  }
  return { id: made.body.id, token: await logIn(server, email, password) };
}

async function apiCall<T>(
  base: string,
  adminToken: string,
  method: string,
  path: string,
  call: Call = {},
): Promise<Answer<T>> {
  const token = call.token === undefined ? adminToken : call.token;
  const headers: Record<string, string> = { ...(token ? { 'Coder-Session-Token': token } : {}), ...call.headers };
  if (call.raw) headers['content-type'] = call.raw.type;
  else if (call.body !== undefined) headers['content-type'] = 'application/json';
  const response = await fetch(`${base}${apiPath(path)}`, {
    method,
    headers,
    ...(call.raw
      ? { body: call.raw.data as NonNullable<RequestInit['body']> }
      : call.body === undefined
        ? {}
        : { body: JSON.stringify(call.body) }),
  });
  const text = await response.text();
  let body: unknown = text;
  if ((response.headers.get('content-type') ?? '').includes('json') && text !== '') body = JSON.parse(text);
  if (response.ok) holdAgainstContract(method, path, response.status, body);
  else if (response.status >= 400) {
    assert.equal(
      typeof (body as { message?: unknown }).message,
      'string',
      `${method} ${path}: an error without message: ${text}`,
    );
    assert.ok(response.headers.get('x-coder-build-version'), 'every answer names the build version');
  }
  return { status: response.status, headers: response.headers, body: body as T };
}

const ajv = new Ajv({
  strict: false,
  allErrors: true,
  // a test of the server checks the schemas, not each file
  meta: false,
  validateSchema: false,
  formats: { uuid: /^[0-9a-f-]{36}$/i, 'date-time': /^\d{4}-\d\d-\d\dT/ },
});
const validators = new Map<string, ValidateFunction>();
const patterns = (Object.keys(routes) as RouteKey[]).map((key) => {
  const [method, path] = key.split(' ') as [string, string];
  const parameters = path.match(/\{/g)?.length ?? 0;
  return { key, method, parameters, regex: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}/?$`) };
});
// The router uses the route with the fewest parameters.
patterns.sort((a, b) => a.parameters - b.parameters);

export function routeOf(method: string, path: string): RouteKey | undefined {
  const bare = path.replace(/\?.*$/, '');
  return patterns.find((entry) => entry.method === method && entry.regex.test(bare))?.key;
}

function holdAgainstContract(method: string, path: string, status: number, body: unknown): void {
  const key = routeOf(method, path);
  if (!key) return;
  const def: RouteDef = routes[key];
  const schema = def.responses[status] ?? Object.entries(def.responses).find(([code]) => code.startsWith('2'))?.[1];
  if (!schema || schema === Nothing || def.stream) return;
  assertUpstreamShape(key, status, body);
  let validate = validators.get(`${key} ${status}`);
  if (!validate) {
    validate = ajv.compile(schema as object);
    validators.set(`${key} ${status}`, validate);
  }
  if (!validate(body)) {
    assert.fail(
      `${key} answered with a body that violates its contract: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(body).slice(0, 2_000)}`,
    );
  }
}
