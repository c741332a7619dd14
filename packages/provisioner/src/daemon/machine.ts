import { ensureDirectory } from '@ropewalk/kit';
import type { Launcher } from '../isolation/client.ts';
import type { MachineContext } from '../job/context.ts';
import { inheritedEnv, withReadableConfig } from '../terraform/env.ts';
import { findEngines } from '../terraform/find-engines.ts';
import { Engines } from './engines.ts';
import type { DaemonOptions } from './options.ts';

/** The mode of the daemon's folders. Builds with other uids must be able to enter them, but not list them. */
export const folderMode = (launcher: Launcher | undefined): number => (launcher ? 0o711 : 0o700);

/** `signal` cancels downloads of terraform. @throws AppError without terraform. */
export async function findMachine(
  options: Omit<DaemonOptions, 'name' | 'workDir'>,
  signal?: AbortSignal,
): Promise<MachineContext> {
  const { cacheDir, launcherPath, socketsDir, log, clock } = options;
  const env = withReadableConfig(inheritedEnv(options.env ?? process.env, options.secretValues), log);
  const launcher = launcherPath
    ? new (await import('../isolation/client.ts')).Launcher(launcherPath, socketsDir)
    : undefined;
  await ensureDirectory(cacheDir, { mode: folderMode(launcher) });
  const engines = await findEngines(
    { paths: options.terraformBinaries ?? [], named: options.namedEngines ?? [] },
    { env, log, install: { cacheDir, log, env, baseUrl: options.terraformBaseUrl, clock, signal } },
  );
  return { engines: new Engines(engines), launcher, env };
}
