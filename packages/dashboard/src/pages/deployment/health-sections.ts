import type { HealthcheckReport, HealthSection, HealthSeverity } from '@ropewalk/contract';
import type { Tone } from '../../ui/classes.ts';

/** The sections of the health report, by the last part of their address. */
export const HEALTH_SECTIONS = [
  { path: 'access-url', name: 'Access URL', key: 'access_url', dismiss: 'AccessURL' },
  { path: 'database', name: 'Database', key: 'database', dismiss: 'Database' },
  { path: 'derp', name: 'Relay (DERP)', key: 'derp', dismiss: 'DERP' },
  { path: 'websocket', name: 'WebSocket', key: 'websocket', dismiss: 'Websocket' },
  { path: 'workspace-proxy', name: 'Workspace proxies', key: 'workspace_proxy', dismiss: 'WorkspaceProxy' },
  {
    path: 'provisioner-daemons',
    name: 'Provisioner daemons',
    key: 'provisioner_daemons',
    dismiss: 'ProvisionerDaemons',
  },
  { path: 'servers', name: 'Servers', key: 'replicas', dismiss: undefined },
  { path: 'background-tasks', name: 'Background tasks', key: 'background_tasks', dismiss: undefined },
] as const satisfies readonly {
  path: string;
  name: string;
  key: keyof HealthcheckReport;
  dismiss: HealthSection | undefined;
}[];

export type HealthSectionInfo = (typeof HEALTH_SECTIONS)[number];

export const SEVERITIES: Record<HealthSeverity, { tone: Tone; name: string }> = {
  ok: { tone: 'good', name: 'Healthy' },
  warning: { tone: 'warn', name: 'Warning' },
  error: { tone: 'bad', name: 'Error' },
};

/** What to do about a section that is not healthy, in addition to what the server says about the case at hand. */
export const REMEDIES: Record<HealthSectionInfo['path'], string> = {
  'access-url':
    'People, workspaces and provisioner daemons must reach the server at this address. Check --access-url, DNS, certificates and the proxy in front of the server.',
  database:
    'Check the load of PostgreSQL, its disk, and the network in between. A database near the server answers within a few milliseconds.',
  derp: 'Connections to workspaces go through the relay of this server. Check that proxies pass long-lived connections.',
  websocket:
    'Terminals, logs and connections to workspaces need WebSockets. Permit upgrades in the proxy in front of the server.',
  'workspace-proxy': 'Check that the proxies run and can reach this server.',
  'provisioner-daemons': 'Start daemons that are offline, and upgrade those with another version than the server.',
  servers:
    'The servers forward connections to each other’s workspaces. Each must reach the others at the addresses below: check --derp-server-relay-url, firewalls and network policies.',
  'background-tasks': 'The log of the server has the whole error. A task runs again by itself after its period.',
};
