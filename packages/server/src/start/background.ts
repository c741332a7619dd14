import { VERSION } from '@ropewalk/kit/version';
import type { Services } from '../app/context/context.ts';
import type { OnDispatch } from '../app/notification/methods.ts';
import { type BuiltinDaemons, startBuiltinDaemons } from '../background/builtin-daemons.ts';
import { notificationTasks } from '../background/deliver-notifications.ts';
import { dormantUsersTask } from '../background/dormancy.ts';
import type { BackgroundDriver } from '../background/driver.ts';
import { failedBuildsTask } from '../background/failed-builds.ts';
import { lateAgentsTask } from '../background/late-agents.ts';
import { lostConnectionsTask } from '../background/lost-connections.ts';
import { lostJobsTask } from '../background/lost-jobs.ts';
import { prebuildsTask } from '../background/prebuilds.ts';
import { purgeTasks } from '../background/purge.ts';
import { refreshSignInsTask } from '../background/refresh-sign-ins.ts';
import { restartsTask } from '../background/restarts.ts';
import { schedulesTask } from '../background/schedules.ts';
import { unclaimedJobsTask } from '../background/unclaimed-jobs.ts';
import { updateCheckTask } from '../background/updates.ts';
import type { Connections } from './connections.ts';
import type { RunningHttp } from './http.ts';
import type { Starting } from './starting.ts';

export interface BackgroundParts {
  services: Services;
  connections: Connections;
  providers: RunningHttp['providers'];
  dispatched: OnDispatch | undefined;
}

/** Adds all background tasks to the driver, which runs them from here on. */
export function startBackgroundTasks(
  { closer }: Starting,
  background: BackgroundDriver,
  { services, connections, providers, dispatched }: BackgroundParts,
): void {
  const tasks = [
    lostJobsTask,
    lateAgentsTask,
    lostConnectionsTask,
    unclaimedJobsTask,
    purgeTasks,
    (given: Services) => notificationTasks(given, dispatched),
    dormantUsersTask,
    failedBuildsTask,
    updateCheckTask,
    schedulesTask,
    restartsTask,
    prebuildsTask,
  ].flatMap((task) => task(services));
  for (const task of [...tasks, ...connections.daemons.tasks]) background.add(task);
  if (Object.keys(providers).length > 0) background.add(refreshSignInsTask(services, providers));
  closer.add('background tasks', () => background.close());
}

/** Starts the built-in daemons, if there are any. */
export async function startBuiltin(
  start: Starting,
  services: Services,
  { server, localUrl }: RunningHttp,
  { installationSecret }: Connections,
): Promise<BuiltinDaemons | undefined> {
  const { config, log, closer } = start;
  if (config.provisionerDaemons <= 0) return undefined;
  const builtin = await startBuiltinDaemons({
    config,
    configDir: start.configDir,
    command: start.daemonCommand,
    launcherCommand: start.launcherCommand,
    programPaths: start.programPaths,
    serverUrl: localUrl,
    server,
    installationSecret,
    version: VERSION,
    log: log.child({ part: 'provisioner' }),
    env: start.env,
  });
  services.warnings.push(...builtin.warnings);
  closer.add('built-in provisioner daemons', () => builtin.close());
  return builtin;
}
