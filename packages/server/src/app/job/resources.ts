import { createHash } from 'node:crypto';
import { AppError } from '@platform/kit';
import { mergeEnvValue } from '@platform/kit/merge-env';
import {
  type Agent,
  type App,
  AppOpenIn,
  AppSharingLevel,
  type Module,
  type Resource,
  type ResourcesMonitoring,
} from '@platform/wire/proto/provisioner';
import type { Db, Tx } from '../../db/connect.ts';
import type { Transition } from '../../db/queries/builds.ts';
import type { Owned } from '../../db/queries/job-ownership.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import {
  agentIdsOfJob,
  existingApp,
  insertAgent,
  insertApp,
  insertDevcontainer,
  insertMetadata,
  insertModule,
  insertMonitors,
  insertResource,
  insertScript,
  type NewApp,
  newAgent,
  newResource,
  type OwnedAgent,
  type OwnedResource,
} from '../../db/queries/resources.ts';
import { together } from '../../db/together.ts';
import { isUuid, NIL_UUID } from '../ids.ts';
import { imageAddress } from '../image-address.ts';
import { devcontainerScript } from './devcontainer.ts';

const AGENT_NAME = /^[a-z0-9](-?[a-z0-9])*$/i;
const APP_SLUG = /^[a-z0-9](-?[a-z0-9])*$/;

const SHARING = {
  [AppSharingLevel.OWNER]: 'owner',
  [AppSharingLevel.AUTHENTICATED]: 'authenticated',
  [AppSharingLevel.PUBLIC]: 'public',
} as const;

/**
 * Stores the resources that a job found or created.
 * @throws AppError `invalid` for names that the platform does not allow
 */
export async function insertResources(
  tx: Tx,
  job: Owned<JobRow>,
  transition: Transition,
  resources: Resource[],
  /**
   * True for the resources of a build, whose agents connect. In a plan, a metadata item without a value may still get
   * one, so it is kept. In a build such an item is dropped.
   */
  { build = false } = {},
): Promise<void> {
  const built = new Set<string>();
  const add = async (resource: Resource) => {
    const metadata = resource.metadata.filter((item) => !build || !item.isNull);
    const names = new Set<string>();
    const slugs = new Set<string>();
    for (const agent of resource.agents) {
      if (!AGENT_NAME.test(agent.name)) {
        throw new AppError(
          'invalid',
          `Invalid agent name ${JSON.stringify(agent.name)}: use letters, digits and single hyphens between them.`,
        );
      }
      if (names.has(agent.name.toLowerCase()))
        throw new AppError('invalid', `Duplicate agent name ${JSON.stringify(agent.name)}.`);
      names.add(agent.name.toLowerCase());
      // In a plan every instance of a resource may have the same agent. In a build these agents would share one token.
      if (build && built.has(agent.name.toLowerCase())) {
        throw new AppError(
          'invalid',
          `The agent name ${JSON.stringify(agent.name)} already exists in this build. ` +
            `Give each instance of ${resource.type}.${resource.name} an agent of its own, or let only one instance use the agent.`,
        );
      }
      built.add(agent.name.toLowerCase());
    }
    const row = newResource(job);
    await together([
      insertResource(tx, job, row, {
        transition,
        type: resource.type,
        name: resource.name,
        hide: resource.hide,
        icon: imageAddress(resource.icon),
        instanceType: resource.instanceType || null,
        dailyCost: resource.dailyCost,
        modulePath: resource.modulePath,
        metadata: metadata.map(({ key, value, sensitive }) => ({ key, value, sensitive })),
      }),
      ...resource.agents.map((agent) => addAgent(tx, row, agent, slugs, build && transition === 'start')),
    ]);
  };
  await together(resources.map(add));
}

export async function insertModules(
  tx: Tx,
  job: Owned<JobRow>,
  transition: Transition,
  modules: Module[],
): Promise<void> {
  await together(
    modules.map(({ source, version, key }) => insertModule(tx, job, { transition, source, version, key })),
  );
}

/** The variables of the agent's `coder_env` resources. Daemons from API 1.16 on leave their merging to the server. */
function mergeEnvs({ name: agent, extraEnvs }: Agent): Record<string, string> {
  const merged = new Map<string, string>();
  for (const { name, value, mergeStrategy } of extraEnvs) {
    const text = mergeEnvValue(merged.get(name), value, mergeStrategy);
    if (text === undefined) {
      const detail = 'A coder_env with merge_strategy "error" allows no other one of its name.';
      throw new AppError('invalid', `Two coder_env of agent ${JSON.stringify(agent)} set ${JSON.stringify(name)}.`, {
        detail,
      });
    }
    merged.set(name, text);
  }
  return Object.fromEntries(merged);
}

async function addAgent(
  tx: Tx,
  resource: OwnedResource,
  agent: Agent,
  slugs: Set<string>,
  /** Whether a person waits for the agent. It then has a time until which it must connect. */
  awaited: boolean,
): Promise<void> {
  // The template's id of an agent stays the same in all builds of a workspace. The row belongs to this build only.
  const token = agent.auth.case === 'token' && agent.auth.value !== '' ? agent.auth.value : crypto.randomUUID();
  if (!isUuid(token)) throw new AppError('invalid', `The token of agent ${JSON.stringify(agent.name)} must be a uuid.`);
  const env = { ...mergeEnvs(agent), ...agent.env };
  const waits = awaited ? agent.connectionTimeoutSeconds : 0;
  const display = agent.displayApps;
  const displayApps = [
    display?.vscode && 'vscode',
    display?.vscodeInsiders && 'vscode_insiders',
    display?.webTerminal && 'web_terminal',
    display?.sshHelper && 'ssh_helper',
    display?.portForwardingHelper && 'port_forwarding_helper',
  ].filter((name) => typeof name === 'string');
  for (const { slug } of agent.apps) {
    if (!APP_SLUG.test(slug)) {
      throw new AppError(
        'invalid',
        `Invalid app slug ${JSON.stringify(slug)}: use lower-case letters, digits and single hyphens between them.`,
      );
    }
    if (slugs.has(slug)) throw new AppError('invalid', `Duplicate app slug ${JSON.stringify(slug)}.`);
    slugs.add(slug);
  }
  const containers = agent.devcontainers.map((container) => ({ ...container, id: crypto.randomUUID() }));
  // upstream's agent finds the script of a dev container by the id of the container
  const scripts = [
    ...agent.scripts.map((script) => ({ ...script, id: crypto.randomUUID() })),
    ...containers.map((container) => ({
      id: container.id,
      displayName: `Dev Container (${container.name})`,
      icon: '/emojis/1f4e6.png',
      logPath: '',
      script: devcontainerScript(container),
      cron: '',
      runOnStart: true,
      runOnStop: false,
      startBlocksLogin: false,
      timeoutSeconds: 0,
    })),
  ];
  const row = newAgent(resource);
  await together([
    insertAgent(tx, resource, row, {
      name: agent.name,
      auth_token: token,
      auth_instance_id: agent.auth.case === 'instanceId' ? agent.auth.value || null : null,
      architecture: agent.architecture,
      operating_system: agent.operatingSystem,
      environment_variables: env,
      directory: agent.directory,
      motd_file: agent.motdFile,
      troubleshooting_url: agent.troubleshootingUrl,
      connection_timeout_seconds: agent.connectionTimeoutSeconds,
      display_apps: displayApps,
      display_order: Number(agent.order),
      api_key_scope: agent.apiKeyScope === 'no_user_data' ? 'no_user_data' : 'all',
      connect_deadline: waits > 0 ? new Date(Date.now() + waits * 1_000) : null,
    }),
    addMonitors(tx, row, agent.resourcesMonitoring),
    ...containers.map(({ id, name, workspaceFolder, configPath }) =>
      insertDevcontainer(tx, row, { id, name, workspaceFolder, configPath }),
    ),
    ...scripts.map((script, order) =>
      insertScript(tx, row, {
        id: script.id,
        display_name: script.displayName,
        icon: imageAddress(script.icon),
        log_path: script.logPath,
        script: script.script,
        cron: script.cron,
        run_on_start: script.runOnStart,
        run_on_stop: script.runOnStop,
        start_blocks_login: script.startBlocksLogin,
        timeout_seconds: script.timeoutSeconds,
        display_order: order,
      }),
    ),
    ...agent.metadata.map((item) =>
      insertMetadata(tx, row, {
        key: item.key,
        display_name: item.displayName,
        script: item.script,
        interval_seconds: Number(item.interval),
        timeout_seconds: Number(item.timeout),
        display_order: Number(item.order),
      }),
    ),
    ...agent.apps.map((app) => insertApp(tx, row, toAppRow(app, row.agent_id))),
  ]);
}

async function addMonitors(tx: Tx, agent: OwnedAgent, monitoring: ResourcesMonitoring | undefined): Promise<void> {
  const { memory, volumes = [] } = monitoring ?? {};
  // the monitor without a path is the memory
  const monitors = [...(memory ? [{ path: '', ...memory }] : []), ...volumes].map(({ path, enabled, threshold }) => ({
    path,
    enabled,
    threshold,
  }));
  await insertMonitors(tx, agent, monitors);
}

function toAppRow(app: App, agentId: string): NewApp {
  const healthUrl = app.healthcheck?.url ?? '';
  return {
    // An app that is kept over builds has an id that another agent's row uses already. It gets a derived id, the same
    // each time.
    id: app.id && app.id !== NIL_UUID ? derivedId(app.id, agentId) : crypto.randomUUID(),
    slug: app.slug,
    display_name: app.displayName,
    icon: imageAddress(app.icon),
    command: app.command || null,
    url: app.url || null,
    external: app.external,
    subdomain: app.subdomain,
    sharing_level: SHARING[app.sharingLevel] ?? 'owner',
    hidden: app.hidden,
    open_in: app.openIn === AppOpenIn.TAB ? 'tab' : 'slim-window',
    display_group: app.group,
    display_order: Number(app.order),
    healthcheck_url: healthUrl,
    healthcheck_interval: app.healthcheck?.interval ?? 0,
    healthcheck_threshold: app.healthcheck?.threshold ?? 0,
    health: healthUrl ? 'initializing' : 'disabled',
  };
}

/** The row of the app that a job's template knows by this id, or null. */
export async function appOfJob(db: Db, jobId: string, appId: string): Promise<string | null> {
  const agents = await agentIdsOfJob(db, jobId);
  const derived = agents.map((id) => derivedId(appId, id));
  return (await existingApp(db, derived)) ?? null;
}

function derivedId(id: string, agentId: string): string {
  const hex = createHash('sha256').update(`${id} ${agentId}`).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
