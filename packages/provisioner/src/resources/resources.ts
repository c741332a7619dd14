import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import {
  type AITask,
  AITaskSchema,
  type ExternalAuthProviderResource,
  type Preset,
  type Resource,
  type ResourceReplacement,
  ResourceReplacementSchema,
  ResourceSchema,
  type RichParameter,
} from '@ropewalk/wire/proto/provisioner';
import { adoptInstanceId, attachChildren, type FoundAgent, findAgents } from './agents.ts';
import type { Graph } from './graph.ts';
import {
  blocks,
  bool,
  checkNumbers,
  type Instance,
  int,
  type PlanFile,
  readPlan,
  readState,
  type Snapshot,
  str,
  type Values,
} from './model.ts';
import { findExternalAuth, findParameters, findPresets } from './parameters.ts';

/** Managed types that only describe resources of the workspace. */
const DESCRIBING = new Set(['coder_script', 'coder_agent', 'coder_agent_instance', 'coder_app', 'coder_metadata']);
/** Stands for a machine that the template does not create. */
const EXTERNAL = 'coder_external_agent';
const INSTANCE_TYPES: Record<string, string> = {
  google_compute_instance: 'machine_type',
  aws_instance: 'instance_type',
  aws_spot_instance_request: 'instance_type',
  azurerm_linux_virtual_machine: 'size',
  azurerm_windows_virtual_machine: 'size',
};

/** The parts of a plan or state that the server stores. */
export interface Described {
  resources: Resource[];
  parameters: RichParameter[];
  presets: Preset[];
  externalAuth: ExternalAuthProviderResource[];
  aiTasks: AITask[];
  hasAiTasks: boolean;
}

/**
 * Converts a plan and the version's dependency graph to messages for the server.
 * `warn` receives warnings for the build's log, for example about an agent without a resource.
 * @throws AppError `invalid` if the template repeats names, slugs, metadata or parameters.
 */
export function describePlan(plan: PlanFile, graph: Graph, warn: (message: string) => void): Described {
  return describe(readPlan(plan), graph, warn);
}

/** The same for the bytes of a state file. */
export function describeState(state: Uint8Array, graph: Graph, warn: (message: string) => void): Described {
  return describe(readState(state), graph, warn);
}

/** The same for the instances of either. */
export function describe(snapshot: Snapshot, graph: Graph, warn: (message: string) => void): Described {
  const { instances } = snapshot;
  checkNumbers(instances);
  const managed = instances.filter(({ mode }) => mode === 'managed');
  const targets = Map.groupBy(
    managed.filter(({ type }) => !type.startsWith('coder_') || type === EXTERNAL),
    ({ label }) => label,
  );
  const candidate = (label: string) => targets.has(label);
  // An agent runs once, so several instances of a module cannot share it.
  const mayRun = (label: string) => new Set(targets.get(label)?.map(({ module }) => module)).size === 1;
  const agents = findAgents(instances);
  attachChildren(instances, agents, graph, warn);

  const agentsByLabel = new Map<string, FoundAgent[]>();
  for (const found of agents) {
    const target = graph.nearest(found.label, 'up', mayRun);
    const name = JSON.stringify(found.agent.name);
    const instances = targets.get(target ?? '')?.length ?? 0;
    if (instances > 1)
      warn(
        `Agent ${name} is used by ${instances} instances of ${target}, but an agent can run in only one. Builds will fail.`,
      );
    if (target === undefined)
      warn(
        `Agent ${name} is left out: no resource of this build uses it, or only several instances of one module use it.`,
      );
    else agentsByLabel.set(target, [...(agentsByLabel.get(target) ?? []), found]);
  }
  const metadata = metadataByLabel(managed, graph, candidate);

  const resources: Resource[] = [];
  for (const instance of managed) {
    if (DESCRIBING.has(instance.type)) continue;
    const own = agentsByLabel.get(instance.label) ?? [];
    for (const found of own) adoptInstanceId(found, instance);
    const meta = metadata.get(instance.label);
    resources.push(
      create(ResourceSchema, {
        name: instance.name,
        type: instance.type,
        agents: own.map(({ agent }) => agent),
        modulePath: instance.module,
        instanceType: str(instance.values[ownValue(INSTANCE_TYPES, instance.type) ?? '']),
        ...(meta ? metadataFields(meta) : {}),
      }),
    );
  }

  const parameters = findParameters(instances);
  const hasAiTasks = graph.labels.some((label) => label.includes('coder_ai_task'));
  return {
    resources,
    parameters,
    presets: findPresets(instances),
    externalAuth: findExternalAuth(instances),
    aiTasks: managed.filter(({ type }) => type === 'coder_ai_task').map(toAiTask),
    hasAiTasks,
  };
}

function metadataByLabel(
  managed: readonly Instance[],
  graph: Graph,
  candidate: (label: string) => boolean,
): Map<string, Values> {
  const out = new Map<string, Values>();
  for (const { type, label, values } of managed) {
    if (type !== 'coder_metadata') continue;
    const target = graph.nearest(label, 'down', candidate);
    if (target === undefined) continue;
    if (out.has(target)) throw new AppError('invalid', `duplicate metadata resource: ${target} has more than one`);
    out.set(target, values);
  }
  return out;
}

function metadataFields(v: Values) {
  return {
    hide: bool(v['hide']),
    icon: str(v['icon']),
    dailyCost: int(v['daily_cost']),
    metadata: blocks(v['item']).map((item) => ({
      key: str(item['key']),
      value: str(item['value']),
      sensitive: bool(item['sensitive']),
      isNull: bool(item['is_null']),
    })),
  };
}

function toAiTask({ values }: Instance): AITask {
  const id = str(blocks(values['sidebar_app'])[0]?.['id']) || str(values['app_id']);
  return create(AITaskSchema, { id: str(values['id']), appId: id, ...(id === '' ? {} : { sidebarApp: { id } }) });
}

/** The cost of the build per day: the sum over all resources with a daily cost in their metadata. */
export function dailyCost(resources: readonly Resource[]): number {
  return resources.reduce((sum, { dailyCost: cost }) => sum + cost, 0);
}

/** The resources of other providers that a plan would replace, with the attributes that force the replacement. */
export function replacements(plan: PlanFile): ResourceReplacement[] {
  return (plan.resource_changes ?? [])
    .filter(({ type, change }) => {
      const actions = change?.actions ?? [];
      return !type.startsWith('coder_') && (change?.replace_paths?.length ?? 0) > 0 && !actions.includes('no-op');
    })
    .map(({ address, change }) =>
      create(ResourceReplacementSchema, {
        resource: address,
        paths: (change?.replace_paths ?? []).map((path) => path.join('.')),
      }),
    );
}
