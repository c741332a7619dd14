import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createFile } from '@ropewalk/kit/files';
import { VERSION } from '@ropewalk/kit/version';
import type { Services } from '../app/context/context.ts';
import type { OnDispatch } from '../app/notification/methods.ts';
import { writeTicket } from '../app/provisioner/ticket.ts';
import type { ProxyHealth } from '../app/workspace-proxy/health.ts';
import { notificationTasks } from '../background/deliver-notifications.ts';
import { dormantUsersTask } from '../background/dormancy.ts';
import type { BackgroundDriver } from '../background/driver.ts';
import { failedBuildsTask } from '../background/failed-builds.ts';
import { lateAgentsTask } from '../background/late-agents.ts';
import { lostConnectionsTask } from '../background/lost-connections.ts';
import { lostJobsTask } from '../background/lost-jobs.ts';
import { prebuildsTask } from '../background/prebuilds.ts';
import { proxyHealthTask } from '../background/proxy-health.ts';
import { purgeTasks } from '../background/purge.ts';
import { refreshSignInsTask } from '../background/refresh-sign-ins.ts';
import { restartsTask } from '../background/restarts.ts';
import { schedulesTask } from '../background/schedules.ts';
import { unclaimedJobsTask } from '../background/unclaimed-jobs.ts';
import { updateCheckTask } from '../background/updates.ts';
import { type BuiltinDaemons, startBuiltinDaemons } from '../builtin-daemons/builtin-daemons.ts';
import { liveReplicas } from '../db/queries/replicas.ts';
import { directoryHash } from '../postgres/place.ts';
import type { Connections } from './connections.ts';
import type { RunningHttp } from './http.ts';
import type { Starting } from './starting.ts';

export interface BackgroundParts {
  services: Services;
  connections: Connections;
  providers: RunningHttp['providers'];
  dispatched: OnDispatch | undefined;
  proxyHealth: ProxyHealth;
}

/** Adds all background tasks to the driver, which runs them from here on. */
export function startBackgroundTasks(
  { closer }: Starting,
  background: BackgroundDriver,
  { services, connections, providers, dispatched, proxyHealth }: BackgroundParts,
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
  background.add(proxyHealthTask(services, proxyHealth));
  if (Object.keys(providers).length > 0) background.add(refreshSignInsTask(services, providers));
  closer.add('background tasks', () => background.close());
}

/** Starts the built-in daemons, if there are any. */
export async function startBuiltin(
  start: Starting,
  services: Services,
  { server, localUrl }: RunningHttp,
  { installationSecret, cluster }: Connections,
): Promise<BuiltinDaemons | undefined> {
  const { config, log, closer } = start;
  if (config.provisionerDaemons <= 0) return undefined;
  const namePrefix = await daemonNamePrefix(start, services);
  const builtin = await startBuiltinDaemons({
    config,
    configDir: start.configDir,
    command: start.daemonCommand,
    launcherCommand: start.launcherCommand,
    programPaths: start.programPaths,
    serverUrl: localUrl,
    namePrefix,
    server,
    installationSecret,
    version: VERSION,
    log: log.child({ part: 'provisioner' }),
    env: start.env,
  });
  services.warnings.push(...builtin.warnings);
  cluster.peers.watch((addresses) => {
    const ticket = writeTicket({ replicaId: services.replicaId, namePrefix }, (text) => cluster.key.sign(text));
    // without another server, the next start of this one adopts the jobs
    const urls = addresses.length === 0 ? [] : [...addresses, services.accessUrl];
    builtin.announce({ successors: { urls, ticket } });
  });
  closer.add('built-in provisioner daemons', () => builtin.close());
  return builtin;
}

/** The longest name of a host in the names of daemons, which have up to 64 characters. */
const MAX_HOST_NAME = 48;

/** The file in the config directory that has the first part of the daemons' names after the name of the host. */
const NAMES_FILE = 'daemon-names';

/**
 * The first part of the names of the built-in daemons. It stays the same after a restart, because a daemon keeps its jobs
 * by its name. A server whose first start finds another one on the same host adds another part for good.
 */
async function daemonNamePrefix({ configDir }: Starting, { sql, replicaId }: Services): Promise<string> {
  const host = hostname().split('.')[0]!.toLowerCase().slice(0, MAX_HOST_NAME);
  const path = join(configDir, NAMES_FILE);
  if (!existsSync(path)) {
    const replicas = await liveReplicas(sql);
    const own = replicas.find(({ id }) => id === replicaId);
    // one at the same address is an earlier start of this server
    const isShared = replicas.some((one) => one.hostname === own?.hostname && one.relay_address !== own.relay_address);
    createFile(path, isShared ? `-${directoryHash(configDir).slice(0, 6)}` : '');
  }
  return `${host}${readFileSync(path, 'utf8').trim()}`;
}
