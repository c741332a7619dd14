import { createHash } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import { mergedVariable } from '@ropewalk/rules/environment-merge';
import {
  type Agent,
  type App,
  AppOpenIn,
  AppSharingLevel,
  type Devcontainer,
  type Env,
  type Module,
  type Resource,
  type ResourcesMonitoring,
  type Script,
} from '@ropewalk/wire/proto/provisioner';
import type { Db, Tx } from '../../db/connect.ts';
import type { Owned } from '../../db/owned.ts';
import { type AgentCredentials, lockCredentials, othersWithCredentials } from '../../db/queries/agents.ts';
import {
  agentIdsOfJob,
  EXTERNAL_AGENT,
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
import type { JobRow, ScriptRow, Transition } from '../../db/rows.ts';
import { together } from '../../db/together.ts';
import { isUuid, NIL_UUID } from '../values/ids.ts';
import { imageAddress } from '../values/image-address.ts';
import { AgentNames, devcontainerScript, hasOwnParts } from './devcontainer.ts';

const AGENT_NAME = /^[a-z0-9](-?[a-z0-9])*$/i;
/** The provider's limit. A daemon of another version may have another one. */
const MAX_TOOLTIP_CHARACTERS = 2_048;
/** Maximum number of scripts that one script waits for. */
const MAX_WAITS = 200;
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
  const credentials = credentialsOf(resources);
  const claimed =
    build && transition !== 'delete' && credentials.tokens.length + credentials.instanceIds.length > 0
      ? checkUnclaimed(tx, job, credentials)
      : undefined;
  const built = new Set<string>();
  const agentNames = new AgentNames(resources);
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
            `Give each instance of ${resource.type}.${resource.name} a separate agent, or let only one instance use the agent.`,
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
      ...resource.agents.map((agent) =>
        addAgent(tx, row, agent, {
          slugs,
          names: agentNames,
          awaited: build && transition === 'start',
          // a person starts it on another machine, perhaps days later
          timeout: resource.type === EXTERNAL_AGENT ? 0 : agent.connectionTimeoutSeconds,
        }),
      ),
    ]);
  };
  await together([claimed, ...resources.map(add)]);
}

/** What the agents of these resources identify themselves with. */
function credentialsOf(resources: readonly Resource[]): AgentCredentials {
  const auths = resources.flatMap(({ agents }) => agents.map(({ auth }) => auth));
  const of = (kind: 'token' | 'instanceId') =>
    auths.flatMap((auth) => (auth.case === kind && auth.value !== '' ? [auth.value] : []));
  return { tokens: of('token').filter(isUuid), instanceIds: of('instanceId') };
}

/**
 * Checks that no agent of another workspace has one of these tokens or machines. Otherwise it would be the one that
 * connects, with this build's scripts and in this workspace.
 * @throws AppError `invalid`
 */
async function checkUnclaimed(tx: Tx, job: Owned<JobRow>, credentials: AgentCredentials): Promise<void> {
  const [, [other]] = await together([
    // of two builds that report the same at the same time, the second one sees the first
    lockCredentials(tx, credentials),
    othersWithCredentials(tx, job, credentials),
  ]);
  if (!other) return;
  const { auth_instance_id: instance } = other;
  const what =
    instance !== null && credentials.instanceIds.includes(instance)
      ? `machine ${JSON.stringify(instance)}`
      : 'agent token';
  throw new AppError(
    'invalid',
    `The build reports the ${what} of an agent of another workspace. ` +
      'Give each workspace its own machine and its own agent token.',
  );
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

async function addAgent(
  tx: Tx,
  resource: OwnedResource,
  agent: Agent,
  {
    slugs,
    names,
    awaited,
    timeout,
  }: {
    slugs: Set<string>;
    names: AgentNames;
    /** Whether a person waits for the agent. It then has a time until which it must connect. */
    awaited: boolean;
    /** Seconds until the agent must connect. 0 means no limit. */
    timeout: number;
  },
): Promise<void> {
  // The template's id of an agent stays the same in all builds of a workspace. The row belongs to this build only.
  const token = agent.auth.case === 'token' && agent.auth.value !== '' ? agent.auth.value : crypto.randomUUID();
  if (!isUuid(token)) throw new AppError('invalid', `The token of agent ${JSON.stringify(agent.name)} must be a uuid.`);
  const env = { ...variablesOf(agent.extraEnvs), ...agent.env };
  const waits = awaited ? timeout : 0;
  const display = agent.displayApps;
  const displayApps = [
    display?.vscode && 'vscode',
    display?.vscodeInsiders && 'vscode_insiders',
    display?.webTerminal && 'web_terminal',
    display?.sshHelper && 'ssh_helper',
    display?.portForwardingHelper && 'port_forwarding_helper',
  ].filter((name) => typeof name === 'string');
  const containers = agent.devcontainers.map((container) => ({
    container,
    id: crypto.randomUUID(),
    inside: hasOwnParts(container) ? newAgent(resource) : undefined,
  }));
  for (const { apps } of [agent, ...agent.devcontainers]) takeSlugs(apps, slugs);
  // upstream's agent finds the script of a dev container by the id of the container
  const scripts = [
    ...agent.scripts.map((script) => ({ ...script, id: crypto.randomUUID() })),
    ...containers.map(({ id, container }) => ({
      id,
      displayName: `Dev Container (${container.name})`,
      icon: '/emojis/1f4e6.png',
      logPath: '',
      script: devcontainerScript(container),
      cron: '',
      runOnStart: true,
      runOnStop: false,
      startBlocksLogin: false,
      timeoutSeconds: 0,
      after: [],
    })),
  ];
  const row = newAgent(resource);
  await together([
    insertAgent(tx, resource, row, {
      name: agent.name,
      parent_id: null,
      auth_token: token,
      auth_instance_id: agent.auth.case === 'instanceId' ? agent.auth.value || null : null,
      architecture: agent.architecture,
      operating_system: agent.operatingSystem,
      environment_variables: env,
      directory: agent.directory,
      motd_file: agent.motdFile,
      troubleshooting_url: agent.troubleshootingUrl,
      connection_timeout_seconds: timeout,
      display_apps: displayApps,
      display_order: Number(agent.order),
      api_key_scope: agent.apiKeyScope === 'no_user_data' ? 'no_user_data' : 'all',
      connect_deadline: waits > 0 ? new Date(Date.now() + waits * 1_000) : null,
    }),
    addMonitors(tx, row, agent.resourcesMonitoring),
    ...containers.map(({ id, container: { name, workspaceFolder, configPath }, inside }) =>
      insertDevcontainer(tx, row, { id, name, workspaceFolder, configPath, inside }),
    ),
    ...addScripts(tx, row, scripts),
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
    ...containers.map(({ container, inside }) =>
      inside
        ? addAgentInside(tx, resource, agent, row, { container, inside, name: names.inside(container) })
        : undefined,
    ),
  ]);
}

/** Adds the agent that will run in a dev container. The agent outside starts it. */
async function addAgentInside(
  tx: Tx,
  resource: OwnedResource,
  outside: Agent,
  { agent_id: parentId }: OwnedAgent,
  { container, inside, name }: { container: Devcontainer; inside: OwnedAgent; name: string },
): Promise<void> {
  await together([
    insertAgent(tx, resource, inside, {
      name,
      parent_id: parentId,
      auth_token: crypto.randomUUID(),
      auth_instance_id: null,
      architecture: outside.architecture,
      operating_system: outside.operatingSystem,
      environment_variables: variablesOf(container.envs),
      directory: container.workspaceFolder,
      motd_file: '',
      troubleshooting_url: outside.troubleshootingUrl,
      // it connects when the container is built, which may take long
      connection_timeout_seconds: 0,
      display_apps: [],
      display_order: 0,
      api_key_scope: outside.apiKeyScope === 'no_user_data' ? 'no_user_data' : 'all',
      connect_deadline: null,
    }),
    ...addScripts(
      tx,
      inside,
      container.scripts.map((script) => ({ ...script, id: crypto.randomUUID() })),
    ),
    ...container.apps.map((app) => insertApp(tx, inside, toAppRow(app, inside.agent_id))),
  ]);
}

const addScripts = (
  tx: Tx,
  agent: OwnedAgent,
  scripts: readonly (Omit<Script, '$typeName'> & { id: string })[],
): Promise<void>[] =>
  scripts.map((script, order) =>
    insertScript(tx, agent, {
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
      waits_for: waitsOf(script, scripts),
      display_order: order,
    }),
  );

/** Daemons send the places of scripts in the list of their agent. */
function waitsOf({ after }: Pick<Script, 'after'>, scripts: readonly { id: string }[]): ScriptRow['waits_for'] {
  if (after.length > MAX_WAITS)
    throw new AppError('invalid', `A script waits for ${after.length} others, and at most ${MAX_WAITS} are allowed.`);
  return after.map(({ script: place, anyOutcome }) => {
    const other = scripts[place];
    if (!other) throw new AppError('invalid', `A script waits for the script ${place}, which its agent does not have.`);
    return { id: other.id, any: anyOutcome };
  });
}

/** Checks the slugs of an agent's apps and adds them to those of its resource. */
function takeSlugs(apps: readonly App[], slugs: Set<string>): void {
  for (const { slug } of apps) {
    if (!APP_SLUG.test(slug)) {
      throw new AppError(
        'invalid',
        `Invalid app slug ${JSON.stringify(slug)}: use lower-case letters, digits and single hyphens between them.`,
      );
    }
    if (slugs.has(slug)) throw new AppError('invalid', `Duplicate app slug ${JSON.stringify(slug)}.`);
    slugs.add(slug);
  }
}

/** The variables of an agent. Our daemons have merged those of one name already, upstream's since 2.33 send them all. */
function variablesOf(envs: readonly Env[]): Record<string, string> {
  const values = new Map<string, string>();
  for (const { name, value, mergeStrategy } of envs) {
    const merged = mergedVariable(values.get(name), value, mergeStrategy);
    if (merged === undefined)
      throw new AppError('invalid', `Two coder_env set ${JSON.stringify(name)}, and one has merge_strategy = "error".`);
    values.set(name, merged);
  }
  return Object.fromEntries(values);
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
    tooltip: app.tooltip.slice(0, MAX_TOOLTIP_CHARACTERS),
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
