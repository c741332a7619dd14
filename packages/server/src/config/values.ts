import type { DeploymentConfig, DeploymentOption, DeploymentOptionGroup, DeploymentValues } from '@ropewalk/contract';
import type { ExternalAuthProvider } from './external-auth.ts';
import type { ValueSource } from './load.ts';
import type { OptionRow } from './option.ts';
import type { OptionName } from './option-rows.ts';
import { type Config, options } from './options.ts';

const NANOSECONDS_PER_MS = 1_000_000;
const SECOND = 1000 * NANOSECONDS_PER_MS;
const MINUTE = 60 * SECOND;

/** The values of fields without an option: this server's fixed choices, and empty values for features that it lacks. */
const fixed = (): DeploymentValues => ({
  access_url: '',
  additional_csp_policy: [],
  address: '',
  agent_fallback_troubleshooting_url: '',
  agent_stat_refresh_interval: 30 * SECOND,
  allow_workspace_renames: false,
  autobuild_poll_interval: MINUTE,
  browser_only: false,
  cache_directory: '',
  cli_upgrade_message: '',
  config: '',
  config_ssh: { DeploymentName: '', SSHConfigOptions: [] },
  dangerous: { allow_all_cors: false, allow_path_app_sharing: false, allow_path_app_site_owner_access: false },
  derp: {
    config: { block_direct: false, force_websockets: false, path: '', url: '' },
    server: {
      enable: false,
      region_code: 'coder',
      region_id: 999,
      region_name: '',
      relay_url: '',
      stun_addresses: [],
    },
  },
  disable_owner_workspace_exec: false,
  disable_password_auth: false,
  disable_path_apps: false,
  disable_workspace_sharing: true,
  docs_url: '',
  enable_terraform_debug_mode: false,
  ephemeral_deployment: false,
  experiments: [],
  external_auth: [],
  external_token_encryption_keys: [],
  healthcheck: { refresh: 0, threshold_database: 0 },
  hide_ai_tasks: false,
  http_address: '',
  http_cookies: { same_site: '', secure_auth_cookie: false },
  job_hang_detector_interval: MINUTE,
  logging: { human: '', json: '', log_filter: [], stackdriver: '' },
  metrics_cache_refresh_interval: 240 * MINUTE,
  notifications: {
    dispatch_timeout: 0,
    email: {
      auth: { identity: '', password: '', password_file: '', username: '' },
      force_tls: false,
      from: '',
      hello: '',
      smarthost: '',
      tls: { ca_file: '', cert_file: '', insecure_skip_verify: false, key_file: '', server_name: '', start_tls: false },
    },
    fetch_interval: 15 * SECOND,
    inbox: { enabled: false },
    lease_count: 20,
    lease_period: 2 * MINUTE,
    max_send_attempts: 0,
    method: '',
    retry_interval: 5 * MINUTE,
    sync_buffer_size: 50,
    sync_interval: 2 * SECOND,
    webhook: { endpoint: '' },
  },
  oauth2: {
    github: {
      allow_everyone: false,
      allow_signups: false,
      allowed_orgs: [],
      allowed_teams: [],
      client_id: '',
      client_secret: '',
      default_provider_enable: false,
      device_flow: false,
      enterprise_base_url: '',
    },
  },
  oidc: {
    allow_signups: false,
    auth_url_params: {},
    client_cert_file: '',
    client_id: '',
    client_key_file: '',
    client_secret: '',
    email_domain: [],
    email_field: '',
    group_allow_list: [],
    group_auto_create: false,
    group_mapping: {},
    group_regex_filter: '',
    groups_field: '',
    icon_url: '',
    ignore_email_verified: false,
    ignore_user_info: false,
    issuer_url: '',
    name_field: '',
    organization_assign_default: true,
    organization_field: '',
    organization_mapping: {},
    scopes: [],
    sign_in_text: '',
    signups_disabled_text: '',
    skip_issuer_checks: false,
    source_user_info_from_access_token: false,
    user_role_field: '',
    user_role_mapping: {},
    user_roles_default: [],
    username_field: '',
  },
  pg_auth: '',
  pg_connection_url: '',
  pprof: { address: '', enable: false },
  prometheus: {
    address: '',
    aggregate_agent_stats_by: [],
    collect_agent_stats: false,
    collect_db_metrics: false,
    enable: false,
  },
  provisioner: {
    daemon_poll_interval: 0,
    daemon_poll_jitter: 0,
    daemon_psk: '',
    daemon_types: ['terraform'],
    daemons: 0,
    force_cancel_interval: 0,
  },
  proxy_health_status_interval: 0,
  proxy_trusted_headers: [],
  proxy_trusted_origins: [],
  rate_limit: { api: 0, disable_all: false },
  redirect_to_access_url: false,
  scim_api_key: '',
  session_lifetime: {
    default_duration: 0,
    default_token_lifetime: 0,
    disable_expiry_refresh: false,
    max_admin_token_lifetime: 0,
    max_token_lifetime: 0,
  },
  ssh_keygen_algorithm: '',
  strict_transport_security: 0,
  strict_transport_security_options: [],
  support: { links: [] },
  swagger: { enable: false },
  // otherwise upstream's dashboard sends people who make a template to a form that does not exist here
  template_builder: { disabled: true },
  telemetry: { enable: false, trace: false, url: '' },
  terms_of_service_url: '',
  tls: {
    address: '',
    allow_insecure_ciphers: false,
    cert_file: [],
    client_auth: '',
    client_ca_file: '',
    client_cert_file: '',
    client_key_file: '',
    enable: false,
    key_file: [],
    min_version: '',
    redirect_http: false,
    supported_ciphers: [],
  },
  trace: { capture_logs: false, data_dog: false, enable: false, honeycomb_api_key: '' },
  update_check: false,
  user_quiet_hours_schedule: { allow_user_custom: false, default_schedule: '' },
  verbose: false,
  web_terminal_renderer: '',
  wgtunnel_host: '',
  wildcard_access_url: '',
  workspace_hostname_suffix: '',
  workspace_prebuilds: {
    failure_hard_limit: 0,
    reconciliation_backoff_interval: 0,
    reconciliation_backoff_lookback: 0,
    reconciliation_interval: 0,
  },
  write_config: false,
});

const rows = Object.entries(options) as [OptionName, OptionRow][];

/** Formats a value for upstream's clients: durations in nanoseconds, secrets blank. */
function toWire(row: OptionRow, value: unknown): unknown {
  if (row.secret) return row.type === 'string[]' ? [] : '';
  return row.type === 'duration' ? (value as number) * NANOSECONDS_PER_MS : value;
}

/** Formats the value of one option in the list of options. */
function toOptionValue(row: OptionRow, value: unknown): unknown {
  return row.withChoices ? { Choices: row.values, Value: value } : toWire(row, value);
}

/** A provider without its secret and the settings that upstream's API does not have. */
function shownProvider({ client_secret, revoke_url, extra_token_keys, pkce, ...shown }: ExternalAuthProvider) {
  return shown;
}

/** The configuration as one tree. Throws if a row's path is not in the tree, which is a mistake in the table. */
export function deploymentValues(config: Config): DeploymentValues {
  const tree = fixed();
  for (const [name, row] of rows) {
    if (row.json === undefined) continue;
    const path = row.json.split('.');
    const last = path.pop()!;
    const node = path.reduce<Record<string, unknown> | undefined>(
      (at, key) => at?.[key] as Record<string, unknown> | undefined,
      tree as unknown as Record<string, unknown>,
    );
    if (!node || !(last in node)) throw new Error(`the path ${row.json} of the option ${name} is not in the tree`);
    node[last] = toWire(row, config[name]);
  }
  tree.external_auth = config.externalAuth.map(shownProvider);
  return tree;
}

const ACRONYMS =
  /\b(ai|api|ca|cli|csp|db|derp|http|https|id|json|oauth2|oidc|psk|scim|smtp|ssh|stun|tls|url|url|ui)\b/gi;

/** The option's name. `oidc-client-id` reads "OIDC Client ID". */
export function optionTitle(row: OptionRow): string {
  if (row.title !== undefined) return row.title;
  return (row.flag ?? '')
    .split('-')
    .map((word) => (word === '' ? '' : word[0]!.toUpperCase() + word.slice(1)))
    .join(' ')
    .replace(ACRONYMS, (word) => (word.toLowerCase() === 'oauth2' ? 'OAuth2' : word.toUpperCase()));
}

/** The group with its parents. Each has its part of the option's path in the YAML file, if the path has as many. */
function groupOf(row: OptionRow): DeploymentOptionGroup {
  const names = row.group.split(' / ');
  const parts = row.yaml?.split('.').slice(0, -1) ?? [];
  const yaml = (at: number) => (parts.length === names.length ? parts[at]! : '');
  const [first, ...inner] = names.map((name, at) => ({ name, description: '', yaml: yaml(at) }));
  return inner.reduce<DeploymentOptionGroup>((parent, group) => ({ ...group, parent }), first!);
}

/** Marks for clients: that a value is in nanoseconds, and that it is a secret. */
const annotationsOf = (row: OptionRow): Record<string, string> => ({
  ...(row.type === 'duration' ? { format_duration: 'true' } : {}),
  ...(row.secret ? { secret: 'true' } : {}),
});

export function deploymentConfig(
  config: Config,
  sources: Partial<Record<OptionName, ValueSource>> = {},
): DeploymentConfig {
  return {
    config: deploymentValues(config),
    options: rows.map(
      ([name, row]): DeploymentOption => ({
        name: optionTitle(row),
        description: row.description,
        flag: row.flag ?? '',
        flag_shorthand: row.short ?? '',
        env: row.env ?? '',
        yaml: row.yaml?.split('.').at(-1) ?? '',
        default: row.default ?? '',
        value: toOptionValue(row, config[name]),
        value_source: sources[name] ?? '',
        annotations: annotationsOf(row),
        group: groupOf(row),
        hidden: row.hidden ?? false,
        required: false,
        use_instead: [],
      }),
    ),
  };
}
