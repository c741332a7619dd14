import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Connection,
  coderOutput,
  ensureExecutable,
  freePort,
  type ServerProcess,
  startCoderServer,
  startFirstWorkspace,
  type Workspace,
} from './harness.ts';
import { agentsOf } from './pool.ts';
import { type SlowLink, startSlowLink } from './slow-link.ts';

/** A region whose server is far away, before its proxy starts. The workspace `dev` is in the region. */
export interface Region {
  server: ServerProcess;
  /** The only way to the server, except for the test. */
  link: SlowLink;
  /** An empty folder, in which workspaces may read. */
  dir: string;
  /** The access URL of the proxy, and the token of `far`, which is its name. */
  proxy: { url: string; token: string };
  stop(): Promise<void>;
}

/** `delayMs`: from the server to everything else, in each direction. */
export async function startRegion(delayMs: number, env: Record<string, string> = {}): Promise<Region> {
  await ensureExecutable();
  const dir = mkdtempSync(join(tmpdir(), 'platform-region-'));
  // workspaces run as another user
  chmodSync(dir, 0o755);
  const [port, own] = [await freePort(), await freePort()];
  const link = await startSlowLink('127.0.0.1', `http://127.0.0.1:${port}`, delayMs);
  const server = await startCoderServer({ port, env: { CODER_ACCESS_URL: link.url, ...env } });
  await startFirstWorkspace(server, dir);
  const create = ['wsproxy', 'create', '--name', 'far', '--only-token'];
  const token = (await coderOutput(create, { env: server.env, cwd: dir })).trim();
  return {
    server,
    link,
    dir,
    proxy: { url: `http://127.0.0.1:${own}`, token },
    async stop() {
      await server.stop();
      link.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The id of the agent of the workspace `dev`. */
export async function agentOfDev(site: Connection): Promise<string> {
  const { body } = await site.api<Workspace>('GET', '/users/me/workspace/dev');
  return agentsOf(body)[0]!.id;
}

/** Whether the servers find this region healthy. */
export async function isHealthyRegion(site: Connection, region: string): Promise<boolean> {
  const { body } = await site.api<{ regions: { name: string; healthy: boolean }[] }>('GET', '/regions');
  return body.regions.some(({ name, healthy }) => name === region && healthy);
}
