import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { mergedVariable } from '@ropewalk/rules/environment-merge';
import {
  type Agent,
  AgentSchema,
  type App,
  AppOpenIn,
  AppSchema,
  AppSharingLevel,
  type Devcontainer,
  DevcontainerSchema,
  type Env,
  EnvSchema,
  type Script,
  ScriptSchema,
} from '@ropewalk/wire/proto/provisioner';
import type { Graph } from './graph.ts';
import { blocks, bool, type Instance, int, str, strings, type Values } from './model.ts';
import { orderScripts, type PlacedScript } from './script-order.ts';

const AGENT_NAME = /^[a-z0-9](-?[a-z0-9])*$/i;
const APP_SLUG = /^[a-z0-9](-?[a-z0-9])*$/;
const SHARING: Record<string, AppSharingLevel> = {
  owner: AppSharingLevel.OWNER,
  authenticated: AppSharingLevel.AUTHENTICATED,
  public: AppSharingLevel.PUBLIC,
};
/** The attribute with the instance's id, by resource type, for agents that authenticate with instance identity. */
const INSTANCE_IDS: Record<string, string> = {
  google_compute_instance: 'instance_id',
  aws_instance: 'id',
  aws_spot_instance_request: 'spot_instance_id',
  azurerm_linux_virtual_machine: 'virtual_machine_id',
  azurerm_windows_virtual_machine: 'virtual_machine_id',
};

/** An agent that is not assigned to its resource yet. */
export interface FoundAgent {
  label: string;
  agent: Agent;
  byInstance: boolean;
}

/** Finds every coder_agent. @throws AppError `invalid` for an invalid or repeated name. */
export function findAgents(instances: readonly Instance[]): FoundAgent[] {
  const names = new Set<string>();
  return instances
    .filter(({ mode, type }) => mode === 'managed' && type === 'coder_agent')
    .map(({ name, label, values }) => {
      if (!AGENT_NAME.test(name))
        throw new AppError('invalid', `agent name ${JSON.stringify(name)} is invalid: use letters, digits and hyphens`);
      if (names.has(name.toLowerCase()))
        throw new AppError(
          'invalid',
          `duplicate agent name: agent names must be unique in a template, ${JSON.stringify(name)} is used twice`,
        );
      names.add(name.toLowerCase());
      const auth = str(values['auth']);
      return { label, agent: toAgent(name, values), byInstance: auth !== 'token' && auth !== '' };
    });
}

function toAgent(name: string, v: Values): Agent {
  const byToken = ['', 'token'].includes(str(v['auth']));
  const display = blocks(v['display_apps'])[0];
  const monitoring = blocks(v['resources_monitoring'])[0];
  const memory = blocks(monitoring?.['memory'])[0];
  const agent = create(AgentSchema, {
    id: str(v['id']),
    name,
    env: strings(v['env']),
    operatingSystem: str(v['os']),
    architecture: str(v['arch']),
    directory: str(v['dir']),
    auth: byToken ? { case: 'token', value: str(v['token']) } : { case: 'instanceId', value: '' },
    connectionTimeoutSeconds: int(v['connection_timeout']),
    troubleshootingUrl: str(v['troubleshooting_url']),
    motdFile: str(v['motd_file']),
    order: BigInt(int(v['order'])),
    apiKeyScope: str(v['api_key_scope']),
    metadata: blocks(v['metadata']).map((item) => ({
      key: str(item['key']),
      displayName: str(item['display_name']),
      script: str(item['script']),
      interval: BigInt(int(item['interval'])),
      timeout: BigInt(int(item['timeout'])),
      order: BigInt(int(item['order'])),
    })),
    displayApps: display
      ? {
          vscode: bool(display['vscode']),
          vscodeInsiders: bool(display['vscode_insiders']),
          webTerminal: bool(display['web_terminal']),
          sshHelper: bool(display['ssh_helper']),
          portForwardingHelper: bool(display['port_forwarding_helper']),
        }
      : { vscode: true, vscodeInsiders: false, webTerminal: true, sshHelper: true, portForwardingHelper: true },
    resourcesMonitoring: {
      ...(memory ? { memory: { enabled: bool(memory['enabled']), threshold: int(memory['threshold']) } } : {}),
      volumes: blocks(monitoring?.['volume']).map((volume) => ({
        path: str(volume['path']),
        enabled: bool(volume['enabled']),
        threshold: int(volume['threshold']),
      })),
    },
  });
  addOldScripts(agent, v);
  return agent;
}

/** Adds `startup_script` and `shutdown_script`, attributes that are older than coder_script. */
function addOldScripts(agent: Agent, v: Values): void {
  if (str(v['startup_script']) !== '')
    agent.scripts.push(
      create(ScriptSchema, {
        displayName: 'Startup Script',
        icon: '/emojis/25b6-fe0f.png',
        logPath: 'coder-startup-script.log',
        script: str(v['startup_script']),
        runOnStart: true,
        startBlocksLogin: str(v['startup_script_behavior']) === 'blocking',
      }),
    );
  if (str(v['shutdown_script']) !== '')
    agent.scripts.push(
      create(ScriptSchema, {
        displayName: 'Shutdown Script',
        icon: '/emojis/25c0.png',
        logPath: 'coder-shutdown-script.log',
        script: str(v['shutdown_script']),
        runOnStop: true,
      }),
    );
}

/** An agent to which apps, scripts and variables can belong: one of the template, or the one in a dev container. */
interface Home {
  label: string;
  /** Empty in a plan. */
  id: string;
  apps: App[];
  scripts: Script[];
  envs: Env[];
}

/** The home that a child (app, script, variable, dev container) belongs to. */
function homeOf(child: Instance, homes: readonly Home[], graph: Graph): Home | undefined {
  const id = str(child.values['agent_id']);
  if (id !== '') return homes.find((home) => home.id === id);
  // A plan has no ids yet, so the agent comes from the graph.
  const unknown = homes.filter((home) => home.id === '');
  const label = graph.nearest(child.label, 'down', (name) => unknown.some((home) => home.label === name));
  return unknown.find((home) => home.label === label);
}

/**
 * Adds apps, scripts, variables, dev containers and instance ids to agents. `warn` receives what belongs to no agent.
 * @throws AppError `invalid`
 */
export function attachChildren(
  instances: readonly Instance[],
  agents: readonly FoundAgent[],
  graph: Graph,
  warn: (message: string) => void,
): void {
  const children = (type: string) => instances.filter((one) => one.mode === 'managed' && one.type === type);
  const outside = new Map(
    agents.map(({ label, agent }): [Home, Agent] => [
      { label, id: agent.id, apps: agent.apps, scripts: agent.scripts, envs: agent.extraEnvs },
      agent,
    ]),
  );
  const homes = [...outside.keys()];
  const homeFor = (child: Instance, among: readonly Home[]): Home | undefined => {
    const home = homeOf(child, among, graph);
    if (!home) warn(`${child.address} is left out: its agent_id is not the id of an agent in this build.`);
    return home;
  };
  for (const { values: v } of children('coder_agent_instance')) {
    const found = agents.find(({ agent }) => agent.id !== '' && agent.id === str(v['agent_id']));
    if (found?.byInstance) found.agent.auth = { case: 'instanceId', value: str(v['instance_id']) };
  }
  for (const child of children('coder_devcontainer')) {
    const home = homeFor(child, [...outside.keys()]);
    const agent = home && outside.get(home);
    if (!agent) continue;
    const container = toDevcontainer(child);
    agent.devcontainers.push(container);
    const { subagentId: id, apps, scripts, envs } = container;
    homes.push({ label: child.label, id, apps, scripts, envs });
  }
  const slugs = new Set<string>();
  for (const child of children('coder_app')) {
    const app = toApp(child, slugs);
    homeFor(child, homes)?.apps.push(app);
  }
  const placed = children('coder_script').flatMap((child): PlacedScript[] => {
    const among = homeFor(child, homes)?.scripts;
    if (!among) return [];
    const script = toScript(child);
    among.push(script);
    return [{ address: child.address, module: child.module, script, among }];
  });
  orderScripts(instances, placed, graph, warn);
  // in this order they append and prepend
  const envs = children('coder_env').sort((a, b) => (a.address < b.address ? -1 : 1));
  for (const child of envs) {
    const home = homeFor(child, homes);
    if (home) mergeEnv(home.envs, child);
  }
}

function toDevcontainer({ name, values: v }: Instance): Devcontainer {
  return create(DevcontainerSchema, {
    id: str(v['id']),
    name,
    workspaceFolder: str(v['workspace_folder']),
    configPath: str(v['config_path']),
    subagentId: str(v['subagent_id']),
  });
}

function toScript({ values: v }: Instance): Script {
  return create(ScriptSchema, {
    displayName: str(v['display_name']),
    icon: str(v['icon']),
    script: str(v['script']),
    cron: str(v['cron']),
    startBlocksLogin: bool(v['start_blocks_login']),
    runOnStart: bool(v['run_on_start']),
    runOnStop: bool(v['run_on_stop']),
    timeoutSeconds: int(v['timeout']),
    logPath: str(v['log_path']),
  });
}

/** Adds a variable to an agent. `merge_strategy` decides how it joins another of the same name. */
function mergeEnv(envs: Env[], { values: v, label }: Instance): void {
  const [name, value] = [str(v['name']), str(v['value'])];
  const before = envs.find((env) => env.name === name);
  const merged = mergedVariable(before?.value, value, str(v['merge_strategy']));
  if (merged === undefined)
    throw new AppError('invalid', `${label}: another coder_env of this agent also sets ${JSON.stringify(name)}`);
  if (before) before.value = merged;
  else envs.push(create(EnvSchema, { name, value: merged }));
}

function toApp(child: Instance, slugs: Set<string>) {
  const v = child.values;
  const slug = str(v['slug']) || child.name;
  if (!APP_SLUG.test(slug))
    throw new AppError(
      'invalid',
      `app slug ${JSON.stringify(slug)} is invalid: use lower-case letters, digits and hyphens`,
    );
  if (slugs.has(slug)) throw new AppError('invalid', `duplicate app slug: ${JSON.stringify(slug)} is used twice`);
  slugs.add(slug);
  const health = blocks(v['healthcheck'])[0];
  return create(AppSchema, {
    id: str(v['id']) || crypto.randomUUID(),
    slug,
    displayName: str(v['display_name']) || child.name || slug,
    command: str(v['command']),
    url: str(v['url']),
    icon: str(v['icon']),
    subdomain: bool(v['subdomain']),
    ...(health
      ? {
          healthcheck: {
            url: str(health['url']),
            interval: int(health['interval']),
            threshold: int(health['threshold']),
          },
        }
      : {}),
    sharingLevel: ownValue(SHARING, str(v['share'])) ?? AppSharingLevel.OWNER,
    external: bool(v['external']),
    order: BigInt(int(v['order'])),
    hidden: bool(v['hidden']),
    openIn: str(v['open_in']) === 'tab' ? AppOpenIn.TAB : AppOpenIn.SLIM_WINDOW,
    group: str(v['group']),
    tooltip: str(v['tooltip']),
  });
}

/** Gives an agent with instance identity the id of its cloud machine, if the template does not set one. */
export function adoptInstanceId(found: FoundAgent, resource: Instance): void {
  const attribute = ownValue(INSTANCE_IDS, resource.type);
  if (!attribute || !found.byInstance || found.agent.auth.value) return;
  found.agent.auth = { case: 'instanceId', value: str(resource.values[attribute]) };
}
