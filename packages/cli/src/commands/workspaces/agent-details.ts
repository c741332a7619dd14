import type { Client } from '@ropewalk/client';
import type { WorkspaceAgent } from '@ropewalk/contract';
import { logText } from '../../framework/terminal-text.ts';

const MAX_PORTS = 20;
const LOG_LINES = 20;
const BROKEN = new Set(['start_error', 'start_timeout', 'shutdown_error', 'shutdown_timeout']);

/**
 * Lines about an agent: its apps, the listening ports of the workspace, and its dev containers. With details also its health, the URL of
 * its troubleshooting page, and the end of the log of failed scripts.
 */
export async function agentDetails(client: Client, agent: WorkspaceAgent, details: boolean): Promise<string[]> {
  const params = { workspaceagent: agent.id };
  const lines: string[] = [];
  if (details) {
    if (agent.health.reason) lines.push(`health: ${agent.health.reason}`);
    if (agent.status !== 'connected' && agent.troubleshooting_url) lines.push(`help: ${agent.troubleshooting_url}`);
    if (agent.expanded_directory) lines.push(`directory: ${agent.expanded_directory}`);
  }
  for (const app of agent.apps.filter(({ hidden }) => details || !hidden)) {
    const health = app.health === 'disabled' ? '' : `, ${app.health}`;
    const what = details ? `: ${app.command || app.url || ''}` : '';
    lines.push(`app ${app.slug}${health}${what}`);
  }
  if (agent.status === 'connected') {
    // an agent may not answer
    const { ports } = await client
      .call('GET /workspaceagents/{workspaceagent}/listening-ports', { params })
      .catch(() => ({ ports: [] }));
    for (const { port, network, process_name: name } of ports.slice(0, MAX_PORTS)) {
      lines.push(`port ${port}/${network}${name ? ` (${name})` : ''}`);
    }
    if (ports.length > MAX_PORTS) lines.push(`${ports.length - MAX_PORTS} more ports`);
    if (!agent.parent_id) lines.push(...(await devcontainerLines(client, agent)));
  }
  if (details && BROKEN.has(agent.lifecycle_state)) {
    const log = await client.call('GET /workspaceagents/{workspaceagent}/logs', { params, query: {} }).catch(() => []);
    if (log.length > LOG_LINES) lines.push(`log (the last ${LOG_LINES} of ${log.length} lines):`);
    else if (log.length > 0) lines.push('log:');
    for (const { output } of log.slice(-LOG_LINES)) lines.push(`  ${logText(output)}`);
  }
  return lines;
}

/** The dev containers that an agent manages. Older agents report none. */
async function devcontainerLines(client: Client, { id }: WorkspaceAgent): Promise<string[]> {
  const { devcontainers } = await client
    .call('GET /workspaceagents/{workspaceagent}/containers', { params: { workspaceagent: id }, query: {} })
    .catch(() => ({ devcontainers: [] }));
  return devcontainers.map(({ name, status, dirty, error }) => {
    const changed = dirty ? ', its configuration has changed' : '';
    return `dev container ${name}: ${status}${changed}${error ? `, ${error}` : ''}`;
  });
}
