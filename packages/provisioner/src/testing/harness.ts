import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, type Logger, silentLogger, stderrSink } from '@ropewalk/kit';
import tar from 'tar-stream';
import { type ProvisionerDaemon, runProvisionerDaemon } from '../daemon/daemon.ts';
import type { DaemonOptions } from '../daemon/options.ts';
import { ScriptedServer } from './server.ts';

export const CODER = `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
`;

/** A tar of these files. */
export async function tarOf(files: Record<string, string | Uint8Array>): Promise<Uint8Array> {
  const pack = tar.pack();
  for (const [name, content] of Object.entries(files)) pack.entry({ name }, Buffer.from(content as string));
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts);
}

/** The type of an import and its archive, as `post` takes them. */
export function importJob(archive: Uint8Array, values: { name: string; value: string }[] = []) {
  return {
    templateSourceArchive: archive,
    type: {
      case: 'templateImport' as const,
      value: { metadata: { coderUrl: 'http://127.0.0.1:3000' }, userVariableValues: values },
    },
  };
}

export interface Harness {
  server: ScriptedServer;
  dir: string;
  options: DaemonOptions;
  start(changes?: Partial<DaemonOptions>): ProvisionerDaemon;
  close(): Promise<void>;
}

/** The log of the daemons. Set PROVISIONER_TEST_LOG to see it. */
export const testLogger: Logger = process.env['PROVISIONER_TEST_LOG']
  ? createLogger({ level: 'debug', sinks: [stderrSink()] })
  : silentLogger;

/** A scripted server, and daemons with their own work directory. */
export async function harness(options: { ours?: boolean } = {}): Promise<Harness> {
  const dir = await mkdtemp(join(tmpdir(), 'pv-'));
  await writeFile(join(dir, 'terraformrc'), '');
  const server = await ScriptedServer.start(options);
  const daemons: ProvisionerDaemon[] = [];
  const base: DaemonOptions = {
    serverUrl: server.url,
    organization: 'default',
    name: 'test-daemon',
    tags: {},
    auth: { key: 'k'.repeat(43) },
    workDir: join(dir, 'work'),
    cacheDir: join(dir, 'cache'),
    provisionerVersion: 'v0.0.0-test',
    secretValues: [],
    env: { ...process.env, TF_CLI_CONFIG_FILE: join(dir, 'terraformrc') },
    log: testLogger,
  };
  return {
    server,
    dir,
    options: base,
    start(changes = {}) {
      const daemon = runProvisionerDaemon({ ...base, ...changes });
      daemons.push(daemon);
      return daemon;
    },
    async close() {
      for (const daemon of daemons) {
        daemon.kill();
        daemon.abandon();
      }
      await Promise.allSettled(daemons.map(({ done }) => done));
      await server.close();
      await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
    },
  };
}
