import type { RouteKey } from '@ropewalk/contract';
import {
  AppError,
  type Clock,
  createCloser,
  ensureDirectorySync,
  errorText,
  type Logger,
  systemClock,
} from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { VERSION } from '@ropewalk/kit/version';
import { createIdentityTrust } from './app/agent/identity/trust.ts';
import type { Services } from './app/context/context.ts';
import { githubEnabled, oidcEnabled } from './app/context/login-types.ts';
import { checkVault } from './app/context/sealed-secrets.ts';
import { createAppTokens } from './app/context/sealed-tokens.ts';
import { createSessions } from './app/context/session.ts';
import { createVault } from './app/context/vault.ts';
import { createHealth } from './app/deployment/health.ts';
import { createChangeFeed } from './app/follow/change-feed.ts';
import { createJobQueue } from './app/job/queue.ts';
import { webpushPublicKey } from './app/notification/webpush.ts';
import { createFlows } from './app/sign-in/flow.ts';
import { createGithub, type GithubProvider } from './app/sign-in/github.ts';
import type { Providers } from './app/sign-in/provider.ts';
import { createKnownDevices, createSignInLimit } from './app/sign-in/sign-in-limit.ts';
import { createWork } from './app/threads/start.ts';
import { appOrigins } from './app/values/app-address.ts';
import { randomText } from './app/values/token.ts';
import { createAppGrants } from './app/workspace-app/grants.ts';
import { systemTask } from './authz/proofs.ts';
import { type BuiltinDaemons, startBuiltinDaemons } from './background/builtin-daemons.ts';
import { notificationTasks } from './background/deliver-notifications.ts';
import { dormantUsersTask } from './background/dormancy.ts';
import { createDrain } from './background/drain.ts';
import { createBackgroundDriver } from './background/driver.ts';
import { failedBuildsTask } from './background/failed-builds.ts';
import { lateAgentsTask } from './background/late-agents.ts';
import { lostConnectionsTask } from './background/lost-connections.ts';
import { lostJobsTask } from './background/lost-jobs.ts';
import { prebuildsTask } from './background/prebuilds.ts';
import { purgeTasks } from './background/purge.ts';
import { refreshSignInsTask } from './background/refresh-sign-ins.ts';
import { restartsTask } from './background/restarts.ts';
import { schedulesTask } from './background/schedules.ts';
import { unclaimedJobsTask } from './background/unclaimed-jobs.ts';
import { updateCheckTask } from './background/updates.ts';
import { hostText, listen, parseAddress } from './config/listen.ts';
import type { LoadedConfig } from './config/load.ts';
import type { Config } from './config/options.ts';
import { connect, isUnreachable, ping } from './db/connect.ts';
import { createEvents } from './db/events.ts';
import { migrate } from './db/migrate.ts';
import { passwordSource } from './db/password.ts';
import { insertDefaultOrganization } from './db/queries/organizations.ts';
import { siteValue } from './db/queries/site.ts';
import { apiPage } from './http/api-page.ts';
import { createAppProxy } from './http/apps/proxy.ts';
import { binaryRoutes, describeExecutables, type FindBinary } from './http/binaries.ts';
import { createClientAddress } from './http/client-address.ts';
import { createDashboard, type Dashboard } from './http/dashboard/build.ts';
import { createCspReports } from './http/dashboard/csp-reports.ts';
import { dashboardRoutes } from './http/dashboard/routes.ts';
import { watchDatabaseStall } from './http/database-stall.ts';
import type { Handlers } from './http/exchange.ts';
import { externalAuthRoutes } from './http/external-auth.ts';
import { installRoutes } from './http/install.ts';
import { plainRoutes } from './http/plain.ts';
import { agentHandlers } from './http/routes/agents.ts';
import { applicationHandlers } from './http/routes/applications.ts';
import { auditHandlers } from './http/routes/audit.ts';
import { buildHandlers } from './http/routes/builds.ts';
import { daemonHandlers } from './http/routes/daemons.ts';
import { eventHandlers } from './http/routes/events.ts';
import { externalAuthHandlers } from './http/routes/external-auth.ts';
import { fileHandlers } from './http/routes/files.ts';
import { generalHandlers } from './http/routes/general.ts';
import { groupHandlers } from './http/routes/groups.ts';
import { idpSyncHandlers } from './http/routes/idp-sync.ts';
import { insightsHandlers } from './http/routes/insights.ts';
import { instanceIdentityHandlers } from './http/routes/instance-identity.ts';
import { keyHandlers } from './http/routes/keys.ts';
import { notificationHandlers } from './http/routes/notifications.ts';
import { organizationHandlers } from './http/routes/organizations.ts';
import { provisionerKeyHandlers } from './http/routes/provisioner-keys.ts';
import { provisionerHandlers } from './http/routes/provisioners.ts';
import { sessionHandlers } from './http/routes/session.ts';
import { signInHandlers } from './http/routes/sign-in.ts';
import { taskHandlers } from './http/routes/tasks.ts';
import { templateVersionHandlers } from './http/routes/template-versions.ts';
import { templateHandlers } from './http/routes/templates.ts';
import { terminalHandlers, terminalPass } from './http/routes/terminal.ts';
import { userHandlers } from './http/routes/users.ts';
import { workspaceHandlers } from './http/routes/workspaces.ts';
import { scimRoutes } from './http/scim.ts';
import { createHttp } from './http/server.ts';
import { createStreamLimits } from './http/stream-limits.ts';
import type { TlsServer } from './http/tls.ts';
import type { RunningMetrics } from './metrics/start.ts';
import { startBundledPostgres } from './postgres/bundled.ts';
import { createProfiler } from './profiles/record.ts';
import { createAgentConnections } from './rpc/agents.ts';
import { createDaemonConnections } from './rpc/provisioner/connections.ts';
import type { Tracing } from './tracing/start.ts';

export interface ServerOptions {
  config: Config;
  /** Where each option's value came from, to be shown next to it. */
  sources?: LoadedConfig['sources'];
  /** Holds secrets of this installation and, without an external database, the bundled one. */
  configDir: string;
  log: Logger;
  /** The program and arguments that run the built-in daemons; see background/builtin-daemons.ts. */
  daemonCommand: readonly string[];
  /** The program and arguments that start builds under their own uids, where the server runs as root. */
  launcherCommand?: readonly string[];
  /** The files and folders that these programs consist of. */
  programPaths?: readonly string[];
  /** Finds the executables that workspaces download. */
  findBinary: FindBinary;
  /** Whether such an executable is still being built, so that agents wait for it. */
  buildsBinaries?: () => boolean;
  /** The dashboard. Default: the one of the executable, or the one that the checkout builds for its first page. */
  dashboard?: Dashboard;
  /** What the daemons may inherit of, minus secrets. */
  env: NodeJS.ProcessEnv;
  /** Default: the system's. */
  clock?: Clock;
  /** Ends the start: what was started is ended again, and the start rejects with the signal's reason. */
  stop?: AbortSignal;
}

export interface RunningServer {
  /** Where it listens, without a trailing slash. */
  url: string;
  /** Where it listens for TLS, if it does, without a trailing slash. */
  tlsUrl?: string;
  accessUrl: string;
  /** Where metrics are served, if they are. */
  metricsUrl?: string;
  /** Where profiles are served, if they are. */
  profilesUrl?: string;
  services: Services;
  /**
   * Ends the builds of the built-in daemons while everything goes on: the first call waits for them up to
   * --provisioner-drain-timeout, the second cancels them, the third kills them. From the first call on the server is not
   * ready. Waits at least for --shutdown-delay, unless `hurried`.
   */
  drain(options?: { hurried?: boolean }): Promise<void>;
  /** Ends everything immediately; builds that still run go on without the server. */
  close(): Promise<void>;
}

/** The longest that any statement of a request or a background task runs. */
const STATEMENT_TIMEOUT_MS = 30_000;
/** The longest that a list or a search runs: it answers with 504 then. */
const LIST_TIMEOUT_MS = 5_000;
const LIST_CONNECTIONS = 4;
/** One for each background task with a lock of the deployment, so that long runs do not delay short ones. */
const LOCK_CONNECTIONS = 8;

/** Starts everything, in order; on failure what was started is ended again. The only wiring file. */
export async function startServer(given: ServerOptions): Promise<RunningServer> {
  const { config, configDir, daemonCommand, findBinary, env, clock = systemClock, stop } = given;
  let { log } = given;
  const closer = createCloser(log);
  try {
    // the driver asks some things on its own account: a database that goes away meanwhile must not end the server
    const onRejection = (err: unknown) => {
      if (!isUnreachable(err)) throw err;
      log.warn('a statement that nobody waited for failed: the database is away', { err: errorText(err) });
    };
    process.on('unhandledRejection', onRejection);
    closer.add('unhandled rejections', async () => void process.off('unhandledRejection', onRejection));
    let tracing: Tracing | undefined;
    if (config.trace || config.traceHoneycombApiKey !== '') {
      // loaded for those who want it
      const { startTracing } = await import('./tracing/start.ts');
      tracing = await startTracing(config, env, log);
      log = tracing.log;
      closer.add('traces', tracing.close);
    }
    if (config.tlsClientCertFile !== '' || config.tlsClientKeyFile !== '') {
      // loaded for those who configured it
      const { presentCertificate } = await import('./http/client-certificate.ts');
      closer.add('client certificate', presentCertificate(config));
    }
    ensureDirectorySync(configDir, { mode: 0o700 });
    const password = await passwordSource(config.postgresUrl, config.postgresAuth, log);
    let postgresUrl = config.postgresUrl;
    if (postgresUrl === '') {
      const bundled = await startBundledPostgres(configDir, log.child({ part: 'postgres' }), stop);
      closer.add('bundled postgres', () => bundled.stop(), 30_000);
      postgresUrl = bundled.url;
    }
    stop?.throwIfAborted();
    const sql = connect(postgresUrl, { password, statementTimeoutMs: STATEMENT_TIMEOUT_MS });
    closer.add('database connections', () => sql.end({ timeout: 5 }));
    const lists = connect(postgresUrl, {
      password,
      max: LIST_CONNECTIONS,
      applicationName: 'coderd-lists',
      statementTimeoutMs: LIST_TIMEOUT_MS,
      searches: true,
    });
    closer.add('database connections of lists', () => lists.end({ timeout: 5 }));
    const locks = connect(postgresUrl, {
      password,
      max: LOCK_CONNECTIONS,
      applicationName: 'coderd-locks',
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    });
    closer.add('database connections of locks', () => locks.end({ timeout: 5 }));
    await abortable(migrate(sql, log), stop).catch((err) => {
      if (isUnreachable(err)) {
        throw new AppError('unavailable', `Could not reach the database: ${(err as Error).message}`, { cause: err });
      }
      throw err;
    });
    // the first connection of a pool asks for types, which must not happen while the database goes away
    await ping(lists);
    const events = await createEvents(sql, log);
    const startUp = systemTask({ actor: { kind: 'system', name: 'start-up' } });
    await insertDefaultOrganization(sql, startUp);
    const vault = createVault(config.externalTokenEncryptionKeys);
    await checkVault(
      sql,
      startUp,
      vault,
      'Add it to --external-token-encryption-keys, or delete these secrets with: coder server dbcrypt delete',
    );
    const work = createWork(log);
    closer.add('worker threads', () => work.close());
    const background = createBackgroundDriver({ locks, clock, log });
    let builtin: BuiltinDaemons | undefined;
    const services: Services = {
      backgroundTasks: background.status,
      sql,
      lists,
      events,
      work,
      config,
      clock,
      log,
      vault,
      deploymentId: await siteValue(sql, startUp, 'deployment_id', () => crypto.randomUUID()),
      version: VERSION,
      accessUrl: '',
      warnings: [],
      builtinDaemonsProblem: () => builtin?.problem(),
      agentsWait: given.buildsBinaries ?? (() => false),
      optionSources: given.sources ?? {},
    };
    if (tracing) {
      const unfollow = tracing.follow(services);
      closer.add('traces of jobs', async () => unfollow());
    }
    let metrics: RunningMetrics | undefined;
    if (config.prometheusEnable) {
      // loaded for those who want it
      const { startMetrics } = await import('./metrics/start.ts');
      const running = await startMetrics(services, parseAddress(config.prometheusAddress));
      closer.add('metrics', () => running.close());
      metrics = running;
    }
    const profiler = createProfiler();
    closer.add('profiler', async () => profiler.close());
    let profilesUrl: string | undefined;
    if (config.pprofEnable) {
      // loaded for those who want it
      const { serveProfiles } = await import('./profiles/serve.ts');
      const profiles = await serveProfiles(profiler, parseAddress(config.pprofAddress), log);
      closer.add('profiles', profiles.close);
      profilesUrl = profiles.url;
    }
    // of this start alone: nobody finds it in the database or in a backup
    const installationSecret = randomText(43);
    const sessions = createSessions(services);
    const queue = createJobQueue(services);
    closer.add('job queue', () => queue.close());
    const daemons = createDaemonConnections(services, queue, metrics);
    const agents = createAgentConnections(services, { metrics });
    closer.add('sessions', () => sessions.close());
    const feed = createChangeFeed(services);
    closer.add('changes', async () => feed.close());
    const { host, port } = parseAddress(config.httpAddress);
    services.accessUrl = (config.accessUrl || localUrl(host, port)).replace(/\/$/, '');
    const clientAddress = createClientAddress(config);
    const deviceKey = await siteValue(sql, startUp, 'device_signing_key', () => randomText(43));
    const tokens = createAppTokens(await siteValue(sql, startUp, 'app_signing_key', () => randomText(43)));
    const streams = createStreamLimits(config);
    const apps = createAppProxy({
      services,
      streams,
      clientAddress,
      sessions,
      tokens,
      grants: createAppGrants(services, tokens),
      dial: ({ agent, port }, signal) => agents.open(agent, { service: 'tcp', port }, signal),
    });
    closer.add('apps', () => apps.close());
    const stopped = new AbortController();
    closer.add('identity providers', async () => stopped.abort());
    const providers: Providers & { github?: GithubProvider } = {};
    if (oidcEnabled(config)) {
      // loaded for those who configured it
      const { createOidc } = await import('./app/sign-in/oidc.ts');
      providers.oidc = createOidc(services, stopped.signal);
    }
    if (githubEnabled(config)) providers.github = createGithub(services, stopped.signal);
    const dashboard = given.dashboard ?? createDashboard({ log: log.child({ part: 'dashboard' }) });
    closer.add('dashboard', () => dashboard.close());
    const cspReports = createCspReports({
      clock,
      log,
      ...(metrics ? { count: metrics.cspReported } : {}),
    });
    const counting = { enabled: !config.dangerousDisableRateLimits };
    const limit = createSignInLimit(clock, counting);
    const flows = createFlows(tokens, clock);
    let servedCertificates: TlsServer['certificates'] = () => [];
    const handlers = {
      ...generalHandlers({
        health: createHealth(services),
        cspReports,
        profiler,
        certificates: () => servedCertificates(),
        webpushKey: await webpushPublicKey(services),
      }),
      ...eventHandlers(feed),
      ...sessionHandlers({
        limit,
        passcodeLimit: createSignInLimit(clock, { enabled: !config.dangerousDisableRateLimits }),
        devices: createKnownDevices(deviceKey, clock),
      }),
      ...signInHandlers({ providers, flows, tokens, limit }),
      ...userHandlers(limit),
      ...keyHandlers,
      ...auditHandlers,
      ...notificationHandlers,
      ...organizationHandlers,
      ...taskHandlers(agents),
      ...groupHandlers,
      ...externalAuthHandlers,
      ...fileHandlers,
      ...idpSyncHandlers,
      ...insightsHandlers,
      ...templateHandlers,
      ...templateVersionHandlers,
      ...provisionerHandlers,
      ...provisionerKeyHandlers,
      ...workspaceHandlers,
      ...buildHandlers,
      ...applicationHandlers({ sessions, tokens }),
      ...agentHandlers(agents),
      ...instanceIdentityHandlers(createIdentityTrust(services)),
      ...terminalHandlers(agents),
      ...daemonHandlers({
        sessions,
        connections: daemons,
        installationSecret,
        isOwnSocket: (socket) => builtin?.socket?.owns(socket) ?? false,
      }),
    } satisfies Handlers<RouteKey>;
    const stallSql = connect(postgresUrl, { password, max: 1, applicationName: 'coderd-stall' });
    closer.add('database connection of the stall watch', () => stallSql.end({ timeout: 5 }));
    await ping(stallSql);
    const stall = watchDatabaseStall(stallSql);
    closer.add('stall watch', async () => stall.close());
    let isStopping = false;
    const app = await createHttp({
      services,
      clientAddress,
      stall,
      sessions,
      handlers,
      streams,
      apps,
      pass: terminalPass(services, tokens),
      plain: (http) => {
        metrics?.observe(http);
        tracing?.observe(http);
        scimRoutes(http, { services, clientAddress });
        plainRoutes(http, services, async () => {
          if (isStopping) throw new AppError('unavailable', 'The server is shutting down.');
          await stall.answers();
        });
        if (config.swaggerEnable) apiPage(http);
        externalAuthRoutes(http, { services, sessions, flows, clientAddress });
        dashboardRoutes(http, {
          dashboard,
          cspReports,
          clientAddress,
          additionalPolicy: config.additionalCspPolicy,
          appOrigins: () => appOrigins(services),
        });
        const describe = describeExecutables(findBinary);
        installRoutes(http, services, describe);
        binaryRoutes(http, { describe, cacheDir: config.cacheDirectory, log });
      },
    });
    const { url, port: actual } = await listen(app.server, { host, port }, '--http-address (CODER_HTTP_ADDRESS)');
    if (!config.accessUrl) services.accessUrl = services.accessUrl.replace(/:\d+$/, `:${actual}`);
    closer.add('http', async () => {
      // it listens on its own account: the framework does not know that there is something to close
      const closed = new Promise<void>((resolve) => app.server.close(() => resolve()));
      app.server.closeAllConnections();
      await closed;
      await app.close();
    });
    let tlsUrl: string | undefined;
    if (config.tlsEnable) {
      // loaded for those who configured it
      const { createTlsServer } = await import('./http/tls.ts');
      const { server: secure, certificates } = createTlsServer(app.server, config, log.child({ part: 'tls' }));
      servedCertificates = certificates;
      closer.add('https', async () => {
        const closed = new Promise<void>((resolve) => secure.close(() => resolve()));
        secure.closeAllConnections();
        await closed;
      });
      const address = parseAddress(config.tlsAddress);
      const listening = await listen(secure, address, '--tls-address (CODER_TLS_ADDRESS)');
      tlsUrl = listening.url;
      // people use the encrypted address unless they were given another
      if (!config.accessUrl) services.accessUrl = localUrl(address.host, listening.port, 'https');
    }
    stop?.throwIfAborted();
    // not before daemons can come back: from here on their leases run again
    const tasks = [
      lostJobsTask,
      lateAgentsTask,
      lostConnectionsTask,
      unclaimedJobsTask,
      purgeTasks,
      (given: Services) => notificationTasks(given, metrics?.dispatched),
      dormantUsersTask,
      failedBuildsTask,
      updateCheckTask,
      schedulesTask,
      restartsTask,
      prebuildsTask,
    ].flatMap((task) => task(services));
    for (const task of [...tasks, ...daemons.tasks]) background.add(task);
    if (Object.keys(providers).length > 0) background.add(refreshSignInsTask(services, providers));
    closer.add('background tasks', () => background.close());
    closer.add('agents', () => agents.close());
    closer.add('provisioner daemons', () => daemons.close());
    if (config.provisionerDaemons > 0) {
      builtin = await startBuiltinDaemons({
        config,
        configDir,
        command: daemonCommand,
        launcherCommand: given.launcherCommand,
        programPaths: given.programPaths,
        serverUrl: localUrl(host, actual),
        server: app.server,
        installationSecret,
        version: VERSION,
        log: log.child({ part: 'provisioner' }),
        env,
      });
      const running = builtin;
      services.warnings.push(...running.warnings);
      closer.add('built-in provisioner daemons', () => running.close());
    }
    stop?.throwIfAborted();
    return {
      url,
      ...(tlsUrl === undefined ? {} : { tlsUrl }),
      accessUrl: services.accessUrl,
      ...(metrics ? { metricsUrl: metrics.url } : {}),
      ...(profilesUrl === undefined ? {} : { profilesUrl }),
      services,
      drain: createDrain({
        daemons: builtin,
        limitMs: config.provisionerDrainTimeout,
        delayMs: config.shutdownDelay,
        onBegin: () => {
          isStopping = true;
        },
        log,
      }),
      close: () => closer.close(),
    };
  } catch (err) {
    await closer.close();
    throw err;
  }
}

/** Where a process of this machine reaches the server. */
function localUrl(host: string, port: number, protocol = 'http'): string {
  return `${protocol}://${host === '0.0.0.0' || host === '::' ? '127.0.0.1' : hostText(host)}:${port}`;
}
