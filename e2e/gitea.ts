import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Browser } from '@ropewalk/testkit/identity-provider';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { answers, eventually } from '@ropewalk/testkit/wait';
import { freePort } from './harness.ts';

/** The folder of a Gitea that scripts/build-gitea.sh built. */
const folder = process.env['GITEA'];
/** The options of tests that need Gitea. */
export const needsGitea = {
  skip: folder === undefined && 'set GITEA to the folder that scripts/build-gitea.sh prints',
};

const ADMIN = { name: 'root', password: 'a password of the forge' };

export interface Gitea {
  url: string;
  /** Adds a person with this password. */
  addUser(name: string): Promise<void>;
  /** Adds a private repository with a first commit. */
  addRepository(owner: string, name: string): Promise<void>;
  /** Registers an OAuth app of these addresses. */
  addApp(redirectUris: string[]): Promise<{ id: string; secret: string }>;
  /** A browser of a person who is signed in at Gitea. */
  browser(name: string): Promise<GiteaBrowser>;
  api<T>(method: string, path: string, body?: unknown, as?: string): Promise<T>;
  stop(): Promise<void>;
}

/** A browser that allows the app on Gitea's page, where it asks. */
export class GiteaBrowser extends Browser {
  readonly gitea: string;
  constructor(gitea: string) {
    super();
    this.gitea = gitea;
  }

  /** Sends a form of Gitea. Returns the address that the answer leads to. */
  async submit(path: string, values: Record<string, string>): Promise<string> {
    const jar = this.cookies.get(new URL(this.gitea).host) ?? new Map<string, string>();
    const answer = await fetch(this.gitea + path, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; '),
        origin: this.gitea,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ _csrf: decodeURIComponent(jar.get('_csrf') ?? ''), ...values }).toString(),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
      jar.set(name!, value!);
    }
    this.cookies.set(new URL(this.gitea).host, jar);
    const location = answer.headers.get('location');
    assert.ok(location, `${path}: ${answer.status} ${(await answer.text()).slice(0, 2_000)}`);
    return new URL(location, this.gitea).href;
  }

  /** Follows redirects until a page of `url`'s server that `stop` accepts, and allows the app on the way. */
  async allow(url: string, stop: (url: string) => boolean): Promise<string> {
    const reached = await this.open(url, (at) => stop(at) || at.startsWith(`${this.gitea}/login/oauth/authorize`));
    if (stop(reached)) return reached;
    const page = await this.step(reached);
    const location = page.headers.get('location');
    if (location !== null) return this.open(new URL(location, reached).href, stop);
    const text = await page.text();
    const values = Object.fromEntries(
      [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)].map(([, name, value]) => [
        name!,
        value!.replaceAll('&#43;', '+').replaceAll('&amp;', '&'),
      ]),
    );
    assert.ok(values['client_id'], text.slice(0, 4_000));
    return this.open(await this.submit('/login/oauth/grant', { ...values, granted: 'true' }), stop);
  }
}

export async function startGitea(): Promise<Gitea> {
  assert.ok(folder);
  const dir = mkdtempSync(join(tmpdir(), 'platform-gitea-'));
  const [database, port] = await Promise.all([freshDatabase(), freePort()]);
  const url = `http://127.0.0.1:${port}`;
  const { host, username, password, pathname, searchParams } = new URL(database.url);
  // a socket's folder, or a host with its port
  const address = searchParams.get('host') ?? host;
  const secret = () => randomBytes(32).toString('base64url');
  const config = join(dir, 'app.ini');
  mkdirSync(join(dir, 'home'));
  writeFileSync(
    config,
    `
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = ${dir}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = ${port}
ROOT_URL = ${url}/
STATIC_ROOT_PATH = ${join(folder, 'source')}
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = postgres
HOST = ${address}
NAME = ${pathname.slice(1)}
USER = ${decodeURIComponent(username)}
PASSWD = "${decodeURIComponent(password)}"
SSL_MODE = disable
[security]
INSTALL_LOCK = true
SECRET_KEY = ${secret()}
PASSWORD_HASH_ALGO = pbkdf2
[oauth2]
JWT_SECRET = ${secret()}
[cron]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
LEVEL = warn
[picture]
DISABLE_GRAVATAR = true
`,
  );
  const env = { PATH: process.env['PATH'], HOME: join(dir, 'home'), GITEA_WORK_DIR: dir };
  const command = join(folder, 'gitea');
  const child = spawn(command, ['web', '--config', config], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      log = (log + data.toString()).slice(-20_000);
    });
  }
  await eventually(
    'Gitea answers',
    async () => {
      if (child.exitCode !== null) throw new Error(`Gitea ended with ${child.exitCode}: ${log}`);
      return answers(`${url}/api/healthz`);
    },
    60_000,
  );
  const created = spawnSync(
    command,
    ['admin', 'user', 'create', '--config', config, '--admin', '--must-change-password=false'].concat([
      '--username',
      ADMIN.name,
      '--password',
      ADMIN.password,
      '--email',
      'root@example.com',
    ]),
    { env, encoding: 'utf8' },
  );
  assert.equal(created.status, 0, created.stderr + created.stdout);
  async function api<T>(method: string, path: string, body?: unknown, as = ADMIN.name): Promise<T> {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Basic ${Buffer.from(`${as}:${ADMIN.password}`).toString('base64')}`,
        'content-type': 'application/json',
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }
  return {
    url,
    api,
    async addUser(name) {
      const { password } = ADMIN;
      await api('POST', '/admin/users', {
        username: name,
        password,
        email: `${name}@example.com`,
        must_change_password: false,
      });
    },
    async addRepository(owner, name) {
      await api('POST', '/user/repos', { name, private: true, auto_init: true, default_branch: 'main' }, owner);
    },
    async addApp(redirect_uris) {
      const made = await api<{ client_id: string; client_secret: string }>('POST', '/user/applications/oauth2', {
        name: 'platform',
        confidential_client: true,
        redirect_uris,
      });
      return { id: made.client_id, secret: made.client_secret };
    },
    async browser(name) {
      const browser = new GiteaBrowser(url);
      await (await browser.step(`${url}/user/login`)).body?.cancel();
      await browser.submit('/user/login', { user_name: name, password: ADMIN.password });
      return browser;
    },
    async stop() {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
      await gone;
      clearTimeout(timer);
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
      await database.drop();
    },
  };
}
