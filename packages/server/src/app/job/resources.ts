import { createHash } from 'node:crypto';
import { AppError } from '@platform/kit';
import {
  type Agent,
  type App,
  AppOpenIn,
  AppSharingLevel,
  type Module,
  type Resource,
  type ResourcesMonitoring,
} from '@platform/wire/proto/provisioner';
import type { Db } from '../../db/connect.ts';
import { isUuid, NIL_UUID } from '../ids.ts';
import { devcontainerScript } from './devcontainer.ts';

const AGENT_NAME = /^[a-z0-9](-?[a-z0-9])*$/i;
const APP_SLUG = /^[a-z0-9](-?[a-z0-9])*$/;

const SHARING = {
  [AppSharingLevel.OWNER]: 'owner',
  [AppSharingLevel.AUTHENTICATED]: 'authenticated',
  [AppSharingLevel.PUBLIC]: 'public',
} as const;

/** Writes what a job found or made. Throws `invalid` for names that the platform can't carry; nothing is kept then. */
export async function insertResources(
  db: Db,
  jobId: string,
  transition: 'start' | 'stop' | 'delete',
  resources: Resource[],
  /**
   * The resources are a build's, not those of a plan: its agents connect. In a plan an item of metadata without a value
   * may still get one, so that it is kept; what was built has none for it.
   */
  { build = false } = {},
): Promise<void> {
  const built = new Set<string>();
  for (const resource of resources) {
    const id = crypto.randomUUID();
    await db`INSERT INTO workspace_resources (id, job_id, transition, type, name, hide, icon, instance_type, daily_cost, module_path, metadata)
      VALUES (${id}, ${jobId}, ${transition}, ${resource.type}, ${resource.name}, ${resource.hide}, ${resource.icon},
        ${resource.instanceType || null}, ${resource.dailyCost}, ${resource.modulePath},
        ${db.json(resource.metadata.filter((item) => !build || !item.isNull).map(({ key, value, sensitive }) => ({ key, value, sensitive })))})`;
    const names = new Set<string>();
    const slugs = new Set<string>();
    for (const agent of resource.agents) {
      if (!AGENT_NAME.test(agent.name)) {
        throw new AppError(
          'invalid',
          `Agent name ${JSON.stringify(agent.name)} must be letters, digits and single hyphens between them.`,
        );
      }
      if (names.has(agent.name.toLowerCase()))
        throw new AppError('invalid', `Duplicate agent name ${JSON.stringify(agent.name)}.`);
      names.add(agent.name.toLowerCase());
      // A plan may show one agent on each instance of a resource. In a build they would all use one token.
      if (build && built.has(agent.name.toLowerCase())) {
        throw new AppError(
          'invalid',
          `The agent name ${JSON.stringify(agent.name)} already exists in this build. ` +
            `Give each instance of ${resource.type}.${resource.name} an agent of its own, or let only one instance use the agent.`,
        );
      }
      built.add(agent.name.toLowerCase());
      await insertAgent(db, id, agent, slugs, build && transition === 'start');
    }
  }
}

export async function insertModules(db: Db, jobId: string, transition: string, modules: Module[]): Promise<void> {
  for (const { source, version, key } of modules) {
    await db`INSERT INTO workspace_modules (job_id, transition, source, version, key)
      VALUES (${jobId}, ${transition}, ${source}, ${version}, ${key})`;
  }
}

async function insertAgent(
  db: Db,
  resourceId: string,
  agent: Agent,
  slugs: Set<string>,
  /** Somebody waits for it: a time by which it has to connect is set. */
  awaited: boolean,
): Promise<void> {
  // The template's own id of an agent stays the same in all builds of a workspace. The row is this build's only.
  const agentId = crypto.randomUUID();
  const token = agent.auth.case === 'token' && agent.auth.value !== '' ? agent.auth.value : crypto.randomUUID();
  if (!isUuid(token)) throw new AppError('invalid', `The token of agent ${JSON.stringify(agent.name)} must be a uuid.`);
  const env = { ...Object.fromEntries(agent.extraEnvs.map(({ name, value }) => [name, value])), ...agent.env };
  const waits = awaited ? agent.connectionTimeoutSeconds : 0;
  const display = agent.displayApps;
  const displayApps = [
    display?.vscode && 'vscode',
    display?.vscodeInsiders && 'vscode_insiders',
    display?.webTerminal && 'web_terminal',
    display?.sshHelper && 'ssh_helper',
    display?.portForwardingHelper && 'port_forwarding_helper',
  ].filter((name) => typeof name === 'string');
  await db`INSERT INTO workspace_agents ${db({
    id: agentId,
    resource_id: resourceId,
    name: agent.name,
    auth_token: token,
    auth_instance_id: agent.auth.case === 'instanceId' ? agent.auth.value || null : null,
    architecture: agent.architecture,
    operating_system: agent.operatingSystem,
    environment_variables: db.json(env) as never,
    directory: agent.directory,
    motd_file: agent.motdFile,
    troubleshooting_url: agent.troubleshootingUrl,
    connection_timeout_seconds: agent.connectionTimeoutSeconds,
    display_apps: displayApps as never,
    display_order: Number(agent.order),
    api_key_scope: agent.apiKeyScope === 'no_user_data' ? 'no_user_data' : 'all',
    connect_deadline: waits > 0 ? new Date(Date.now() + waits * 1_000) : null,
  })}`;
  await insertMonitors(db, agentId, agent.resourcesMonitoring);
  const containers = agent.devcontainers.map((container) => ({ ...container, id: crypto.randomUUID() }));
  for (const { id, name, workspaceFolder, configPath } of containers) {
    await db`INSERT INTO workspace_agent_devcontainers (id, workspace_agent_id, name, workspace_folder, config_path)
      VALUES (${id}, ${agentId}, ${name}, ${workspaceFolder}, ${configPath})`;
  }
  // an agent of the published platform knows the script of a dev container by the same id
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
  for (const [order, script] of scripts.entries()) {
    const sourceId = crypto.randomUUID();
    await db`INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
      VALUES (${sourceId}, ${agentId}, ${script.displayName}, ${script.icon})`;
    await db`INSERT INTO workspace_agent_scripts ${db({
      id: script.id,
      workspace_agent_id: agentId,
      log_source_id: sourceId,
      display_name: script.displayName,
      log_path: script.logPath,
      script: script.script,
      cron: script.cron,
      run_on_start: script.runOnStart,
      run_on_stop: script.runOnStop,
      start_blocks_login: script.startBlocksLogin,
      timeout_seconds: script.timeoutSeconds,
      display_order: order,
    })}`;
  }
  for (const item of agent.metadata) {
    await db`INSERT INTO workspace_agent_metadata ${db({
      workspace_agent_id: agentId,
      key: item.key,
      display_name: item.displayName,
      script: item.script,
      interval_seconds: Number(item.interval),
      timeout_seconds: Number(item.timeout),
      display_order: Number(item.order),
    })} ON CONFLICT DO NOTHING`;
  }
  for (const app of agent.apps) {
    if (!APP_SLUG.test(app.slug)) {
      throw new AppError(
        'invalid',
        `App slug ${JSON.stringify(app.slug)} must be lower-case letters, digits and single hyphens between them.`,
      );
    }
    if (slugs.has(app.slug)) throw new AppError('invalid', `Duplicate app slug ${JSON.stringify(app.slug)}.`);
    slugs.add(app.slug);
    await insertApp(db, agentId, app);
  }
}

async function insertMonitors(db: Db, agentId: string, monitoring: ResourcesMonitoring | undefined): Promise<void> {
  const { memory, volumes = [] } = monitoring ?? {};
  // the memory is the monitor without a path
  const monitors = [...(memory ? [{ path: '', ...memory }] : []), ...volumes].map(({ path, enabled, threshold }) => ({
    agent_id: agentId,
    path,
    enabled,
    threshold,
  }));
  if (monitors.length > 0) await db`INSERT INTO workspace_agent_monitors ${db(monitors)} ON CONFLICT DO NOTHING`;
}

async function insertApp(db: Db, agentId: string, app: App): Promise<void> {
  const healthUrl = app.healthcheck?.url ?? '';
  const row = {
    // an id that another agent's row has (an app kept over builds) becomes one of its own, the same each time
    id: app.id && app.id !== NIL_UUID ? derivedId(app.id, agentId) : crypto.randomUUID(),
    agent_id: agentId,
    slug: app.slug,
    display_name: app.displayName,
    icon: app.icon,
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
  await db`INSERT INTO workspace_apps ${db(row)}`;
}

/** The row of an app that a job's template knows by this id; null where there is none. */
export async function appOfJob(db: Db, jobId: string, appId: string): Promise<string | null> {
  const agents = await db<{ id: string }[]>`
    SELECT a.id FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${jobId}`;
  const [app] = await db<{ id: string }[]>`
    SELECT id FROM workspace_apps WHERE id = ANY(${agents.map(({ id }) => derivedId(appId, id))})`;
  return app?.id ?? null;
}

function derivedId(id: string, agentId: string): string {
  const hex = createHash('sha256').update(`${id} ${agentId}`).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
