import { ownValue } from '@ropewalk/kit/own-value';

/** What people read for an action, after the name of the person. */
const DONE: Readonly<Record<string, string>> = {
  create: 'created',
  write: 'updated',
  delete: 'deleted',
  start: 'started',
  stop: 'stopped',
  login: 'logged in',
  logout: 'logged out',
  register: 'registered',
  request_password_reset: 'password reset requested',
  connect: 'connected',
  disconnect: 'disconnected',
  open: 'opened',
  close: 'closed',
};

/** The names of types that differ from their words. */
const NAMES: Readonly<Record<string, string>> = {
  api_key: 'token',
  appearance: 'appearance settings',
  convert_login: 'login type conversion',
  git_ssh_key: 'git ssh key',
  idp_sync_settings_group: 'settings',
  idp_sync_settings_organization: 'settings',
  idp_sync_settings_role: 'settings',
  notifications_settings: 'notifications settings',
  prebuilds_settings: 'prebuilds settings',
};

/** Types whose name would not help, or of which a deployment has only one. */
const WITHOUT_TARGET = new Set(['git_ssh_key', 'health_settings', 'notifications_settings', 'appearance']);
const OF_SESSIONS = new Set(['login', 'logout', 'register']);

/**
 * The sentence of an entry, with `{user}` and `{target}` as placeholders for names, as upstream's clients expect. Anyone
 * who knows an address can request a password reset, so that sentence names no person who did it.
 */
export function describeAction(entry: { resource_type: string; action: string; status_code: number }): string {
  const { resource_type: type, action, status_code: status } = entry;
  const failed = status >= 400;
  const done = failed ? `unsuccessfully attempted to ${action}` : (ownValue(DONE, action) ?? action);
  if (action === 'request_password_reset') return `${done} for {target}`;
  const start = `{user} ${done}`;
  if (type === 'api_key' && OF_SESSIONS.has(action)) return start;
  const name = ownValue(NAMES, type) ?? type.replaceAll('_', ' ');
  if (WITHOUT_TARGET.has(type)) return `${start} the ${name}`;
  return `${start} ${name}${type === 'convert_login' ? ' to' : ''} {target}`;
}
