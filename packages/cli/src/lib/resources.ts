import type { WorkspaceAgent, WorkspaceResource } from '@platform/contract';
import { layOut } from './output.ts';

export interface ResourcesOptions {
  title: string;
  /** With the agents' state, and how to reach them by this name. */
  workspace?: string;
  details?: boolean;
  /** More lines below an agent, by its id. */
  below?: ReadonlyMap<string, readonly string[]>;
}

/** Resources with their agents below them. Hidden ones are left out, unless details are asked for. */
export function resourcesText(resources: readonly WorkspaceResource[], options: ResourcesOptions): string {
  const shown = resources
    .filter(({ hide }) => options.details || !hide)
    .sort((a, b) => (`${a.type}.${a.name}` < `${b.type}.${b.name}` ? -1 : 1));
  const agentCount = shown.reduce((sum, { agents }) => sum + (agents?.length ?? 0), 0);
  const head = ['RESOURCE', ...(options.workspace ? ['STATUS', 'HEALTH', 'VERSION', 'ACCESS'] : [])];
  const lines: (string[] | string)[] = [head];
  for (const resource of shown) {
    lines.push([`${resource.type}.${resource.name}`]);
    const agents = resource.agents ?? [];
    for (const [i, agent] of agents.entries()) {
      const branch = i === agents.length - 1 ? '└─' : '├─';
      const label = `${branch} ${agent.name} (${agent.operating_system}, ${agent.architecture})`;
      lines.push([label, ...(options.workspace ? agentCells(agent, options.workspace, agentCount) : [])]);
      const trunk = i === agents.length - 1 ? ' ' : '│';
      // a line of its own: what is below an agent must not widen the table
      for (const line of options.below?.get(agent.id) ?? []) lines.push(`${trunk}    ${line}`);
    }
    if (!options.details) continue;
    for (const { key, value, sensitive } of resource.metadata ?? []) {
      lines.push([`   ${key}: ${sensitive ? '(sensitive)' : value}`]);
    }
  }
  if (shown.length === 0) lines.push(['(none)']);
  return `${options.title}\n${withLoose(lines)}`;
}

/** A table with lines in it that are no rows of it. */
function withLoose(lines: readonly (string[] | string)[]): string {
  const rows = layOut(lines.filter((line) => typeof line !== 'string')).split('\n');
  let at = 0;
  return lines.map((line) => (typeof line === 'string' ? line : rows[at++]!)).join('\n');
}

function agentCells(agent: WorkspaceAgent, workspace: string, agentCount: number): string[] {
  const name = agentCount > 1 ? `${workspace}.${agent.name}` : workspace;
  const life = agent.status === 'connected' && agent.lifecycle_state !== 'ready' ? `, ${agent.lifecycle_state}` : '';
  const well = agent.health.healthy && agent.status !== 'connecting';
  const health = well ? 'healthy' : (agent.health.reason ?? 'unhealthy');
  return [agent.status + life, health, agent.version, `coder ssh ${name}`];
}
