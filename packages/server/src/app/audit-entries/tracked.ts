/**
 * The fields of each resource that the audit log compares, under upstream's names. A tracked field appears in the
 * difference with its old and new value, a secret one only with the fact that it changed. Fields that are not listed
 * are ignored. Columns of ours that have another name or unit than upstream's field are converted.
 */

type Row = Readonly<Record<string, unknown>>;

/** How the value of a field is found in a row. A name stands for a column of another name. */
export type Tracking = 'track' | 'secret' | { value: (row: Row) => unknown };

const from = (column: string): Tracking => ({ value: (row) => row[column] });
/** Upstream's durations are in nanoseconds. */
const nanoseconds = (column: string): Tracking => ({
  value: (row) => (typeof row[column] === 'number' ? row[column] * 1_000_000 : row[column]),
});

/** An empty list is like none, so that a new object has no entry for it. */
const unlessEmpty = (column: string): Tracking => ({
  value(row) {
    const list = row[column];
    return typeof list === 'object' && list !== null && Object.keys(list).length === 0 ? undefined : list;
  },
});

const DAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];
const otherDays = (column: string): Tracking => ({
  value(row) {
    const days = row[column];
    return Array.isArray(days) ? DAYS.filter((day) => !days.includes(day)) : undefined;
  },
});

function track(...names: string[]): Record<string, Tracking> {
  return Object.fromEntries(names.map((name) => [name, 'track']));
}

export const TRACKED: Readonly<Record<string, Readonly<Record<string, Tracking>>>> = {
  api_key: track('created_at', 'expires_at', 'last_used', 'user_id'),
  appearance: track('application_name', 'logo_url', 'announcement_banners'),
  convert_login: track('created_at', 'expires_at', 'from_login_type', 'to_login_type', 'user_id'),
  custom_role: {
    ...track('name', 'display_name', 'site_permissions', 'user_permissions'),
    org_permissions: from('permissions'),
  },
  git_ssh_key: { ...track('user_id', 'public_key'), private_key: 'secret' },
  group: track('id', 'name', 'display_name', 'avatar_url', 'quota_allowance', 'members'),
  health_settings: track('dismissed_healthchecks'),
  idp_sync_settings_group: track('field', 'mapping', 'regex_filter', 'auto_create_missing_groups'),
  idp_sync_settings_organization: track('field', 'mapping', 'assign_default'),
  idp_sync_settings_role: track('field', 'mapping'),
  notification_template: track(
    'name',
    'title_template',
    'body_template',
    'actions',
    'group',
    'method',
    'kind',
    'enabled_by_default',
  ),
  notifications_settings: track('notifier_paused'),
  prebuilds_settings: track('reconciliation_paused'),
  oauth2_provider_app: {
    ...track('name', 'icon', 'callback_url', 'redirect_uris', 'client_type', 'dynamically_registered', 'scope'),
    metadata: 'track',
    registration_access_token: 'secret',
  },
  oauth2_provider_app_secret: {},
  oauth2_provider_settings: track('dynamic_client_registration_enabled'),
  organization: track(
    'name',
    'display_name',
    'description',
    'icon',
    'is_default',
    'updated_at',
    'shareable_workspace_owners',
    'default_org_member_roles',
  ),
  organization_member: track('username', 'user_id', 'created_at', 'updated_at', 'roles'),
  provisioner_key: { ...track('name', 'tags'), hashed_secret: 'secret' },
  template: {
    ...track(
      'id',
      'name',
      'display_name',
      'provisioner',
      'active_version_id',
      'description',
      'icon',
      'autostop_requirement_weeks',
      'created_by',
      'group_acl',
      'user_acl',
      'allow_user_autostart',
      'allow_user_autostop',
      'allow_user_cancel_workspace_jobs',
      'require_active_version',
      'deprecated',
      'use_classic_parameter_flow',
      'cors_behavior',
      'disable_module_cache',
    ),
    default_ttl: nanoseconds('default_ttl_ms'),
    activity_bump: nanoseconds('activity_bump_ms'),
    failure_ttl: nanoseconds('failure_ttl_ms'),
    time_til_dormant: nanoseconds('time_til_dormant_ms'),
    time_til_dormant_autodelete: nanoseconds('time_til_dormant_autodelete_ms'),
    time_til_autostop_notify: nanoseconds('time_til_autostop_notify_ms'),
    autostop_requirement_days_of_week: from('autostop_requirement_days'),
    autostart_block_days_of_week: otherDays('autostart_days'),
    max_port_sharing_level: from('max_port_share_level'),
  },
  template_version: track('id', 'template_id', 'name', 'readme', 'created_by', 'archived'),
  user: {
    ...track(
      'id',
      'email',
      'username',
      'name',
      'status',
      'rbac_roles',
      'login_type',
      'is_service_account',
      'deleted',
      'quiet_hours_schedule',
      'one_time_passcode_expires_at',
    ),
    hashed_password: 'secret',
  },
  user_secret: {
    ...track('id', 'user_id', 'name', 'description', 'env_name', 'file_path', 'enabled'),
    value: 'secret',
  },
  workspace: {
    ...track(
      'id',
      'owner_id',
      'template_id',
      'name',
      'autostart_schedule',
      'dormant_at',
      'deleting_at',
      'automatic_updates',
      'favorite',
      'next_start_at',
    ),
    user_acl: unlessEmpty('user_acl'),
    group_acl: unlessEmpty('group_acl'),
    ttl: nanoseconds('ttl_ms'),
  },
  workspace_build: track('template_version_id'),
  workspace_proxy: {
    ...track('id', 'name', 'display_name', 'icon', 'url', 'wildcard_hostname', 'created_at', 'version'),
    ...track('derp_enabled', 'derp_only', 'region_id'),
    token_hashed_secret: 'secret',
  },
};
