// Terraform modules to download: from an absolute path, a git repository and a module registry.

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { tarOf } from './template.ts';

type Files = Record<string, string>;

export interface ModuleSources {
  /** Writes a module to a directory and returns its absolute path. */
  path(name: string, files: Files): string;
  /** Commits a module to a new git repository and returns its source. */
  git(name: string, files: Files): string;
  /** Publishes a module as version 1.0.0 and returns its source. */
  registry(name: string, files: Files): Promise<string>;
  /** Makes Terraform find the registry, and git trust repositories of another user. */
  env: Record<string, string>;
  /** Closes the registry. Its address stays in the configuration. */
  cut(): Promise<void>;
  close(): Promise<void>;
}

/** Creates sources that any user of this machine may read. */
export async function startModuleSources(): Promise<ModuleSources> {
  const dir = mkdtempSync(join(tmpdir(), 'modules-'));
  chmodSync(dir, 0o755);
  const archives = new Map<string, Buffer>();
  const http = createServer(({ url = '' }, res) => {
    const [, name, what] = /^\/v1\/modules\/acme\/(\w+)\/coder\/(versions|1\.0\.0\/download)$/.exec(url) ?? [];
    const archive = archives.get(/^\/archives\/(\w+)\.tar\.gz/.exec(url)?.[1] ?? '');
    if (archive) res.end(archive);
    else if (!name || !archives.has(name)) res.writeHead(404).end();
    else if (what === 'versions') res.end(JSON.stringify({ modules: [{ versions: [{ version: '1.0.0' }] }] }));
    else res.writeHead(204, { 'X-Terraform-Get': `/archives/${name}.tar.gz` }).end();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  const config = join(dir, 'terraformrc');
  // Terraform discovers registries only over https.
  writeFileSync(
    config,
    `host "registry.test" {\n  services = { "modules.v1" = "http://127.0.0.1:${port}/v1/modules/" }\n}\n`,
  );
  const gitConfig = join(dir, 'gitconfig');
  writeFileSync(gitConfig, '[safe]\n  directory = *\n');
  const path = (name: string, files: Files): string => {
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(dir, name, file)), { recursive: true });
      writeFileSync(join(dir, name, file), text);
    }
    return join(dir, name);
  };
  const cut = async () => {
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  };
  return {
    path,
    git(name, files) {
      const cwd = path(name, files);
      const git = (...args: string[]) =>
        execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd });
      git('init', '--quiet', '--initial-branch=main');
      git('add', '.');
      git('commit', '--quiet', '--message=modules');
      return `git::file://${cwd}?ref=main`;
    },
    async registry(name, files) {
      archives.set(name, gzipSync(await tarOf(files)));
      return `registry.test/acme/${name}/coder`;
    },
    env: { TF_CLI_CONFIG_FILE: config, GIT_CONFIG_GLOBAL: gitConfig },
    cut,
    async close() {
      await cut();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
