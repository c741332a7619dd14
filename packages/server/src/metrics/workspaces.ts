import { Gauge, type Registry } from 'prom-client';
import { derpMap, type MapServices } from '../app/tailnet/derp-map.ts';
import { relayLatencies } from '../app/tailnet/relay-latencies.ts';
import { readWorkspaceFigures } from '../db/queries/workspace-figures.ts';
import type { DatabaseGauges } from './gauges.ts';

/** The maximum number of agents, and of kinds of latest builds, with their own series. */
const MAX_SERIES = 10_000;
const BOUNDED = `At most ${MAX_SERIES} of them. For the whole deployment: each server reports the same value.`;

/** Gauges of workspaces and of the agents of running ones. */
export function createWorkspaceGauges(services: MapServices, registry: Registry): DatabaseGauges {
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Gauge({ name, help: `${help} ${BOUNDED}`, labelNames, registers: [registry] });
  const up = gauge('coderd_agents_up', 'The number of connected agents of each started workspace.', [
    'template_name',
    'template_version',
    'username',
    'workspace_name',
  ]);
  const connections = gauge('coderd_agents_connections', 'The agents of started workspaces, by status.', [
    'agent_name',
    'lifecycle_state',
    'status',
    'tailnet_node',
    'username',
    'workspace_name',
  ]);
  const latencies = gauge(
    'coderd_agents_connection_latencies_seconds',
    'The latencies between connected agents and the regions of relays, in seconds.',
    ['agent_name', 'derp_region', 'preferred', 'username', 'workspace_name'],
  );
  const apps = gauge('coderd_agents_apps', 'The apps of started workspaces, by health.', [
    'agent_name',
    'app_name',
    'health',
    'username',
    'workspace_name',
  ]);
  const builds = gauge('coderd_workspace_latest_build_status', 'The number of workspaces by their latest build.', [
    'status',
    'template_name',
    'template_version',
    'workspace_owner',
    'workspace_transition',
  ]);
  const all = [up, connections, latencies, apps, builds];
  const forget = () => {
    for (const one of all) one.reset();
  };
  return {
    forget,
    async read(sql) {
      const figures = await readWorkspaceFigures(sql, MAX_SERIES);
      forget();
      const relays = derpMap(services);
      for (const { status, lifecycle_state, agent_name, network, ...agent } of figures.agents) {
        const { template_name, template_version, username, workspace_name } = agent;
        const known = status === 'connected' ? network : null;
        up.inc({ template_name, template_version, username, workspace_name }, status === 'connected' ? 1 : 0);
        connections.set(
          { agent_name, lifecycle_state, status, tailnet_node: known?.node ?? 'unknown', username, workspace_name },
          1,
        );
        for (const { region, seconds, preferred } of known ? relayLatencies(known, relays) : []) {
          latencies.set(
            { agent_name, derp_region: region, preferred: String(preferred), username, workspace_name },
            seconds,
          );
        }
        for (const { name, health } of agent.apps) {
          apps.set({ agent_name, app_name: name, health, username, workspace_name }, 1);
        }
      }
      for (const { count, ...labels } of figures.builds) builds.set(labels, count);
    },
  };
}
