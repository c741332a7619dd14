import { setFlagsFromString } from 'node:v8';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import type { OptionName } from '@ropewalk/server';
import { command } from '../../../framework/definition.ts';
import { print } from '../../../framework/io.ts';
import type { FlagDef, FlagDefs } from '../../../framework/types.ts';
import { configuredLogger } from '../logging.ts';
import { optionFlag, optionTexts } from '../option-flags.ts';
import { createBinaries, programCommand, programPaths, selfCommand } from '../self.ts';
import { onEverySignal } from '../signals.ts';

const STOPPING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Every option of the server as a flag. The server parses the texts, since it has the types. */
async function serverFlags(): Promise<FlagDefs> {
  const { options } = await import('@ropewalk/server/config/options');
  const flags: Record<string, FlagDef> = {
    config: {
      type: 'string',
      short: 'c',
      env: 'CODER_CONFIG_PATH',
      description: 'YAML file with options. Flags and environment variables take precedence over it.',
    },
    'write-config': {
      type: 'bool',
      description:
        'Print the options with their values as a YAML file, without secrets and external auth providers, and start nothing.',
    },
  };
  for (const row of Object.values(options)) flags[row.flag] = optionFlag(row);
  return flags;
}

export default command({ loadFlags: serverFlags }, async (ctx, { texts, flags: values }) => {
  const { createDashboard, loadConfig, options, startServer } = await import('@ropewalk/server');
  const flags = optionTexts(options, Object.keys(options) as OptionName[], texts);
  const { config: yamlPath, 'write-config': writesConfig } = values as { config?: string; 'write-config'?: boolean };
  const loaded = loadConfig({ flags, env: ctx.env, ...(yamlPath ? { yamlPath } : {}) });
  if (writesConfig) {
    const { configYaml } = await import('@ropewalk/server/config/yaml');
    return print(ctx.io, configYaml(loaded.texts).trimEnd());
  }
  const { config, sources } = loaded;
  const log = configuredLogger(config);
  const { givenWithoutEffect } = await import('@ropewalk/server');
  const idle = givenWithoutEffect({ sources });
  if (idle.length > 0) {
    log.warn('these options have no effect', {
      options: idle.map((name) => options[name].flag).join(', '),
    });
  }
  // until the server is ready: as PID 1 of a container, it would otherwise ignore SIGTERM
  const starting = new AbortController();
  onEverySignal(STOPPING, (signal) => {
    if (starting.signal.aborted) process.exit(1);
    log.info('stopping before the server is ready', { signal });
    starting.abort();
  });
  // V8 lets the heap grow to four times its live size, which was 700 MB with 2,000 agents
  setFlagsFromString('--heap-growing-percent=100');
  const binaries = createBinaries();
  const dashboard = createDashboard({ log: log.child({ part: 'dashboard' }) });
  const server = await startServer({
    config,
    sources,
    configDir: ctx.configDir,
    log,
    daemonCommand: selfCommand('provisioner', 'builtin'),
    launcherCommand: programCommand('launcher'),
    programPaths: programPaths(),
    findBinary: binaries.find,
    buildsBinaries: binaries.building,
    dashboard,
    env: ctx.env,
    stop: starting.signal,
  }).catch((err) => {
    if (!starting.signal.aborted) throw err;
    return undefined;
  });
  if (!server) return binaries.close();
  releaseMemoryWhenIdle();
  const drained = Promise.withResolvers<void>();
  let isClosing = false;
  onEverySignal(STOPPING, (signal) => {
    if (isClosing) process.exit(1);
    log.info('stopping', { signal });
    // a person at a terminal waits, and has no load balancer
    server.drain({ hurried: signal !== 'SIGTERM' }).then(drained.resolve, drained.reject);
  });
  print(ctx.io, `The server is ready: ${server.accessUrl}`);
  print(ctx.io, `Log in, or create the first user, with: coder login ${server.accessUrl}`);
  print(ctx.io, 'Stop with Ctrl+C.');
  // before a person or a workspace waits for them
  void dashboard.files().catch(() => {});
  void binaries.warm();
  if (binaries.building()) log.info('building the executable that workspaces download');
  await drained.promise;
  isClosing = true;
  binaries.close();
  await server.close();
});
