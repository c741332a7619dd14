import type { WorkspaceAgent, WorkspaceResource } from '@ropewalk/contract';
import { columnOf } from './output.ts';
import { type Layout, layOutTable, PLAIN_LAYOUT } from './table.ts';

export interface ResourcesOptions {
  title: string;
  /** The name of the workspace, to show the state of its agents and the command that connects to each. */
  workspace?: string;
  details?: boolean;
  /** More lines below an agent, by its id. */
  below?: ReadonlyMap<string, readonly string[]>;
  /** Default: that of pipes and files. */
  layout?: Layout;
}

/** Resources with their agents below them. Shows hidden resources only with details. */
export function resourcesText(resources: readonly WorkspaceResource[], options: ResourcesOptions): string {
  const shown = resources
    .filter(({ hide }) => options.details || !hide)
    .sort((a, b) => (`${a.type}.${a.name}` < `${b.type}.${b.name}` ? -1 : 1));
  const agentCount = shown.reduce((sum, { agents }) => sum + (agents?.length ?? 0), 0);
  const head = ['resource', ...(options.workspace ? ['status', 'health', 'version', 'access'] : [])];
  const lines: (string[] | string)[] = [];
  for (const resource of shown) {
    lines.push([`${resource.type}.${resource.name}`]);
    const agents = resource.agents ?? [];
    const addAgents = (parent: string | null, indent: string) => {
      const these = agents.filter(({ parent_id: id }) => (id ?? null) === parent);
      for (const [i, agent] of these.entries()) {
        const isLast = i === these.length - 1;
        const label = `${indent}${isLast ? '└─' : '├─'} ${agent.name} (${agent.operating_system}, ${agent.architecture})`;
        lines.push([label, ...(options.workspace ? agentCells(agent, options.workspace, agentCount) : [])]);
        const trunk = `${indent}${isLast ? ' ' : '│'}`;
        // a separate line: lines below an agent must not widen the table
        for (const line of options.below?.get(agent.id) ?? []) lines.push(`${trunk}    ${line}`);
        // the agents of its dev containers
        addAgents(agent.id, `${trunk}  `);
      }
    };
    addAgents(null, '');
    if (!options.details) continue;
    for (const { key, value, sensitive } of resource.metadata ?? []) {
      lines.push([`   ${key}: ${sensitive ? '(sensitive)' : value}`]);
    }
  }
  if (shown.length === 0) lines.push(['(none)']);
  return `${options.title}\n${withLoose(head, lines, options.layout ?? PLAIN_LAYOUT)}`;
}

/** A table with further lines between its rows. */
function withLoose(head: readonly string[], lines: readonly (string[] | string)[], layout: Layout): string {
  const rows = lines.filter((line) => typeof line !== 'string');
  // the health says what is wrong, so that it may be shortened, but no column is left out
  const table = layOutTable(head.map(columnOf), rows, { ...layout, chosen: true });
  const [first, ...texts] = table.text.split('\n');
  let at = 0;
  return [first, ...lines.map((line) => (typeof line === 'string' ? line : texts[at++]!))].join('\n');
}

function agentCells(agent: WorkspaceAgent, workspace: string, agentCount: number): string[] {
  const name = agentCount > 1 ? `${workspace}.${agent.name}` : workspace;
  const life = agent.status === 'connected' && agent.lifecycle_state !== 'ready' ? `, ${agent.lifecycle_state}` : '';
  const well = agent.health.healthy && agent.status !== 'connecting';
  const health = well ? 'healthy' : (agent.health.reason ?? 'unhealthy');
  return [agent.status + life, health, agent.version, `coder ssh ${name}`];
}
