import type { FilterKey, FilterValue } from '../../ui/filter-input.tsx';

const ACTIONS = [
  'create',
  'write',
  'delete',
  'start',
  'stop',
  'login',
  'logout',
  'register',
  'request_password_reset',
  'connect',
];
const TYPES = [
  'workspace',
  'workspace_build',
  'template',
  'template_version',
  'user',
  'api_key',
  'git_ssh_key',
  'user_secret',
  'oauth2_provider_app',
  'oauth2_provider_app_secret',
  'oauth2_provider_settings',
  'group',
  'organization',
  'organization_member',
  'custom_role',
  'convert_login',
  'health_settings',
  'notifications_settings',
  'notification_template',
  'idp_sync_settings_organization',
  'idp_sync_settings_group',
  'idp_sync_settings_role',
  'provisioner_key',
  'appearance',
  'workspace_agent',
];
const CONNECTIONS = ['ssh', 'vscode', 'jetbrains', 'reconnecting_pty', 'workspace_app', 'port_forwarding'];
const DAY_MS = 86_400_000;

export interface FilterSources {
  users: (typed: string) => Promise<readonly FilterValue[]>;
  organizations: () => Promise<readonly FilterValue[]>;
}

const oneOf = (values: readonly string[]) => () => values.map((value) => ({ value }));
const day = (daysAgo: number) => new Date(Date.now() - daysAgo * DAY_MS).toISOString().slice(0, 10);
const days = (...ago: number[]): FilterValue[] =>
  ago.map((n) => ({ value: day(n), help: n === 0 ? 'today' : n === 1 ? 'yesterday' : `${n} days ago` }));
const person = (key: string, help: string, sources: FilterSources): FilterKey => ({
  key,
  help,
  values: async (typed) => [{ value: 'me', help: 'yourself' }, ...(await sources.users(typed))],
});
const organization = (sources: FilterSources): FilterKey => ({
  key: 'organization',
  help: 'in an organization',
  values: sources.organizations,
});
const typed = (key: string, help: string): FilterKey => ({ key, help, values: () => [] });

/** The keys of the audit log's search. */
export const auditKeys = (sources: FilterSources): FilterKey[] => [
  { key: 'resource_type', help: 'what was changed', values: oneOf(TYPES) },
  { key: 'action', help: 'what was done', values: oneOf(ACTIONS) },
  person('username', 'who did it', sources),
  typed('email', 'who did it, by address'),
  typed('resource_target', 'the exact name of the resource'),
  organization(sources),
  { key: 'date_from', help: 'the first day', values: () => days(0, 1, 7, 30, 90) },
  { key: 'date_to', help: 'the last day', values: () => days(0, 1, 7, 30, 90) },
  { key: 'build_reason', help: 'why a build ran', values: oneOf(['initiator', 'autostart', 'autostop', 'dormancy']) },
  typed('resource_id', 'the id of the resource'),
  typed('request_id', 'the id of a request'),
];

/** The keys of the connection log's search. */
export const connectionKeys = (sources: FilterSources): FilterKey[] => [
  { key: 'type', help: 'the kind of connection', values: oneOf(CONNECTIONS) },
  { key: 'status', help: 'whether it is still open', values: oneOf(['ongoing', 'completed']) },
  person('username', 'who connected', sources),
  typed('user_email', 'who connected, by address'),
  person('workspace_owner', 'whose workspace', sources),
  typed('workspace_owner_email', 'whose workspace, by address'),
  organization(sources),
  { key: 'connected_after', help: 'a day or a time', values: () => days(0, 1, 7, 30) },
  { key: 'connected_before', help: 'a day or a time', values: () => days(0, 1, 7, 30) },
  typed('workspace_id', 'the id of a workspace'),
  typed('connection_id', 'the id of a connection'),
];
