import { type Logger, systemClock } from '@ropewalk/kit';
import { VERSION } from '@ropewalk/kit/version';
import { type Ctx, type Services, systemContext } from './app/context/context.ts';
import { ProxyRelays } from './app/context/proxy-relays.ts';
import { createVault } from './app/context/vault.ts';
import { createTemplateCatalog } from './app/template-catalog/catalog.ts';
import { createWork } from './app/threads/start.ts';
import { loadConfig } from './config/load.ts';
import { connect } from './db/connect.ts';
import { createEvents } from './db/events.ts';
import { migrate } from './db/migrate.ts';
import { passwordSource } from './db/password.ts';
import { useBundledPostgres } from './postgres/bundled.ts';

export interface DirectOptions {
  /** Empty: the bundled database of the config directory. */
  postgresUrl: string;
  /** As --postgres-auth. */
  postgresAuth: string;
  configDir: string;
  /** What happens, for the records. */
  task: string;
  log: Logger;
  /** Whether to bring the database to this program's schema first. Servers of older versions then cannot use it. */
  migrate?: boolean;
}

/**
 * Runs a rule on the database without a server, as the server itself. A server that runs at the same time applies the
 * changes immediately: its events come from the database.
 */
export async function onDatabase<T>(options: DirectOptions, run: (ctx: Ctx) => Promise<T>): Promise<T> {
  const { log, postgresUrl, configDir, task } = options;
  const bundled = postgresUrl === '' ? await useBundledPostgres(configDir, log) : undefined;
  const password = await passwordSource(postgresUrl, options.postgresAuth, log);
  const sql = connect(bundled?.url ?? postgresUrl, { password, max: 4, applicationName: 'coder-direct' });
  const work = createWork(log);
  try {
    if (options.migrate) await migrate(sql, log);
    const services: Services = {
      sql,
      lists: sql,
      events: await createEvents(sql, log),
      work,
      config: loadConfig({ env: {} }).config,
      clock: systemClock,
      log,
      // what these commands store is not encrypted
      vault: createVault([]),
      deploymentId: '',
      replicaId: '',
      templateCatalog: createTemplateCatalog({ source: '', cacheDirectory: '', env: {}, clock: systemClock, log }),
      version: VERSION,
      accessUrl: '',
      optionSources: {},
      relayRegions: [],
      proxyRelays: new ProxyRelays(),
      warnings: [],
      builtinDaemonsProblem: () => undefined,
      backgroundTasks: () => [],
      agentsWait: () => false,
    };
    return await run(systemContext(services, task));
  } finally {
    await work.close();
    await sql.end({ timeout: 5 });
    await bundled?.stop();
  }
}
