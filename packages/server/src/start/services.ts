import { VERSION } from '@ropewalk/kit/version';
import type { Services } from '../app/context/context.ts';
import { ProxyRelays } from '../app/context/proxy-relays.ts';
import { checkVault } from '../app/context/sealed-secrets.ts';
import { type AppTokens, createAppTokens } from '../app/context/sealed-tokens.ts';
import { createVault, type Vault } from '../app/context/vault.ts';
import { readRelayRegions } from '../app/tailnet/derp-map.ts';
import { createTemplateCatalog } from '../app/template-catalog/catalog.ts';
import { createWork } from '../app/threads/start.ts';
import { randomText } from '../app/values/token.ts';
import { createProxyKeys, type ProxyKeys } from '../app/workspace-proxy/keys.ts';
import { systemTask } from '../authz/proofs.ts';
import { createEvents, type Events } from '../db/events.ts';
import { insertDefaultOrganization } from '../db/queries/organizations.ts';
import { siteValue } from '../db/queries/site.ts';
import type { Database } from './database.ts';
import type { Starting } from './starting.ts';

/** What the database stores of this installation as a whole. */
export interface Installation {
  events: Events;
  vault: Vault;
  deploymentId: string;
  /** Signs the cookies of devices that signed in before. */
  deviceKey: string;
  tokens: AppTokens;
  /** Signs what visitors of workspace proxies may use. */
  proxyKeys: ProxyKeys;
  /** Signs the tokens with which clients of the tailnet keep their ids. */
  resumeKey: string;
}

/** Writes what an empty database lacks, and reads the installation's keys. */
export async function readInstallation({ config, log }: Starting, { sql }: Database): Promise<Installation> {
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
  return {
    events,
    vault,
    deploymentId: await siteValue(sql, startUp, 'deployment_id', () => crypto.randomUUID()),
    deviceKey: await siteValue(sql, startUp, 'device_signing_key', () => randomText(43)),
    resumeKey: await siteValue(sql, startUp, 'tailnet_resume_key', () => randomText(43)),
    proxyKeys: createProxyKeys(await siteValue(sql, startUp, 'proxy_signing_key', () => randomText(43))),
    tokens: createAppTokens(await siteValue(sql, startUp, 'app_signing_key', () => randomText(43))),
  };
}

/** The services, still without the URL where people reach the server. */
export async function startServices(
  start: Starting,
  { sql, lists }: Database,
  { events, vault, deploymentId }: Installation,
  status: Pick<Services, 'backgroundTasks' | 'builtinDaemonsProblem'>,
): Promise<Services> {
  const { config, clock, log, closer, stop } = start;
  const relayRegions = await readRelayRegions(config, stop);
  const work = createWork(log);
  closer.add('worker threads', () => work.close());
  const { templateBuilderSource: source, cacheDirectory } = config;
  const templateCatalog = createTemplateCatalog({ source, cacheDirectory, env: start.env, clock, log });
  closer.add('template catalog', () => templateCatalog.close());
  return {
    ...status,
    sql,
    lists,
    events,
    work,
    config,
    clock,
    log,
    vault,
    templateCatalog,
    deploymentId,
    replicaId: crypto.randomUUID(),
    version: VERSION,
    accessUrl: '',
    relayRegions,
    proxyRelays: new ProxyRelays(),
    warnings: [],
    agentsWait: start.buildsBinaries ?? (() => false),
    optionSources: start.sources ?? {},
  };
}
