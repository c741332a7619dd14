// The options of a deployment, as the API reports them.
import { type Static, Type } from 'typebox';
import { LinkConfig } from './deployment.ts';
import { documentedAlso, named, stringEnum } from './kit.ts';

export const DERPConfig = named(
  'DERPConfig',
  Type.Object({
    block_direct: Type.Boolean(),
    force_websockets: Type.Boolean(),
    path: Type.String(),
    url: Type.String(),
  }),
);
export type DERPConfig = Static<typeof DERPConfig>;

export const UrlValue = named(
  'UrlValue',
  documentedAlso(Type.String(), {
    type: 'object',
    properties: {
      forceQuery: { type: 'boolean' },
      fragment: { type: 'string' },
      host: { type: 'string' },
      omitHost: { type: 'boolean' },
      opaque: { type: 'string' },
      path: { type: 'string' },
      rawFragment: { type: 'string' },
      rawPath: { type: 'string' },
      rawQuery: { type: 'string' },
      scheme: { type: 'string' },
      user: { type: 'object' },
    },
  }),
);
export type UrlValue = Static<typeof UrlValue>;

export const DERPServerConfig = named(
  'DERPServerConfig',
  Type.Object({
    enable: Type.Boolean(),
    region_code: Type.String(),
    region_id: Type.Integer(),
    region_name: Type.String(),
    relay_url: UrlValue,
    stun_addresses: Type.Array(Type.String()),
  }),
);
export type DERPServerConfig = Static<typeof DERPServerConfig>;

export const DERP = named(
  'DERP',
  Type.Object({
    config: DERPConfig,
    server: DERPServerConfig,
  }),
);
export type DERP = Static<typeof DERP>;

export const DangerousConfig = named(
  'DangerousConfig',
  Type.Object({
    allow_all_cors: Type.Boolean(),
    allow_path_app_sharing: Type.Boolean(),
    allow_path_app_site_owner_access: Type.Boolean(),
  }),
);
export type DangerousConfig = Static<typeof DangerousConfig>;

export const HTTPCookieConfig = named(
  'HTTPCookieConfig',
  Type.Object({
    host_prefix: Type.Boolean(),
    same_site: Type.String(),
    secure_auth_cookie: Type.Boolean(),
  }),
);
export type HTTPCookieConfig = Static<typeof HTTPCookieConfig>;

export const HealthcheckConfig = named(
  'HealthcheckConfig',
  Type.Object({
    refresh: Type.Integer(),
    threshold_database: Type.Integer(),
  }),
);
export type HealthcheckConfig = Static<typeof HealthcheckConfig>;

export const LoggingConfig = named(
  'LoggingConfig',
  Type.Object({
    human: Type.String(),
    json: Type.String(),
    log_filter: Type.Array(Type.String()),
    stackdriver: Type.String(),
  }),
);
export type LoggingConfig = Static<typeof LoggingConfig>;

export const NotificationsEmailAuthConfig = named(
  'NotificationsEmailAuthConfig',
  Type.Object({
    identity: Type.String(),
    password: Type.String(),
    password_file: Type.String(),
    username: Type.String(),
  }),
);
export type NotificationsEmailAuthConfig = Static<typeof NotificationsEmailAuthConfig>;

export const NotificationsEmailTLSConfig = named(
  'NotificationsEmailTLSConfig',
  Type.Object({
    ca_file: Type.String(),
    cert_file: Type.String(),
    insecure_skip_verify: Type.Boolean(),
    key_file: Type.String(),
    server_name: Type.String(),
    start_tls: Type.Boolean(),
  }),
);
export type NotificationsEmailTLSConfig = Static<typeof NotificationsEmailTLSConfig>;

export const NotificationsEmailConfig = named(
  'NotificationsEmailConfig',
  Type.Object({
    auth: NotificationsEmailAuthConfig,
    force_tls: Type.Boolean(),
    from: Type.String(),
    hello: Type.String(),
    smarthost: Type.String(),
    tls: NotificationsEmailTLSConfig,
  }),
);
export type NotificationsEmailConfig = Static<typeof NotificationsEmailConfig>;

export const NotificationsInboxConfig = named(
  'NotificationsInboxConfig',
  Type.Object({
    enabled: Type.Boolean(),
  }),
);
export type NotificationsInboxConfig = Static<typeof NotificationsInboxConfig>;

export const NotificationsWebhookConfig = named(
  'NotificationsWebhookConfig',
  Type.Object({
    endpoint: UrlValue,
  }),
);
export type NotificationsWebhookConfig = Static<typeof NotificationsWebhookConfig>;

export const NotificationsConfig = named(
  'NotificationsConfig',
  Type.Object({
    dispatch_timeout: Type.Integer(),
    email: NotificationsEmailConfig,
    fetch_interval: Type.Integer(),
    inbox: NotificationsInboxConfig,
    lease_count: Type.Integer(),
    lease_period: Type.Integer(),
    max_send_attempts: Type.Integer(),
    method: Type.String(),
    retry_interval: Type.Integer(),
    sync_buffer_size: Type.Integer(),
    sync_interval: Type.Integer(),
    webhook: NotificationsWebhookConfig,
  }),
);
export type NotificationsConfig = Static<typeof NotificationsConfig>;

export const OAuth2GithubConfig = named(
  'OAuth2GithubConfig',
  Type.Object({
    allow_everyone: Type.Boolean(),
    allow_signups: Type.Boolean(),
    allowed_orgs: Type.Array(Type.String()),
    allowed_teams: Type.Array(Type.String()),
    client_id: Type.String(),
    client_secret: Type.String(),
    default_provider_enable: Type.Boolean(),
    device_flow: Type.Boolean(),
    enterprise_base_url: Type.String(),
  }),
);
export type OAuth2GithubConfig = Static<typeof OAuth2GithubConfig>;

export const OAuth2Config = named(
  'OAuth2Config',
  Type.Object({
    github: OAuth2GithubConfig,
  }),
);
export type OAuth2Config = Static<typeof OAuth2Config>;

export const Regexp = named('Regexp', documentedAlso(Type.String(), { type: 'object' }));
export type Regexp = Static<typeof Regexp>;

export const OIDCConfig = named(
  'OIDCConfig',
  Type.Object({
    allow_signups: Type.Boolean(),
    auth_url_params: Type.Record(Type.String(), Type.Unknown()),
    client_cert_file: Type.String(),
    client_id: Type.String(),
    client_key_file: Type.String(),
    client_secret: Type.String(),
    email_domain: Type.Array(Type.String()),
    email_field: Type.String(),
    group_allow_list: Type.Array(Type.String()),
    group_auto_create: Type.Boolean(),
    group_mapping: Type.Record(Type.String(), Type.Unknown()),
    group_regex_filter: Regexp,
    groups_field: Type.String(),
    icon_url: UrlValue,
    ignore_email_verified: Type.Boolean(),
    ignore_user_info: Type.Boolean(),
    issuer_url: Type.String(),
    name_field: Type.String(),
    organization_assign_default: Type.Boolean(),
    organization_field: Type.String(),
    organization_mapping: Type.Record(Type.String(), Type.Unknown()),
    redirect_url: UrlValue,
    scopes: Type.Array(Type.String()),
    sign_in_text: Type.String(),
    signups_disabled_text: Type.String(),
    skip_issuer_checks: Type.Boolean(),
    source_user_info_from_access_token: Type.Boolean(),
    user_role_field: Type.String(),
    user_role_mapping: Type.Record(Type.String(), Type.Unknown()),
    user_roles_default: Type.Array(Type.String()),
    username_field: Type.String(),
  }),
);
export type OIDCConfig = Static<typeof OIDCConfig>;

export const HostPort = named(
  'HostPort',
  documentedAlso(Type.String(), { type: 'object', properties: { host: { type: 'string' }, port: { type: 'string' } } }),
);
export type HostPort = Static<typeof HostPort>;

export const PprofConfig = named(
  'PprofConfig',
  Type.Object({
    address: HostPort,
    enable: Type.Boolean(),
  }),
);
export type PprofConfig = Static<typeof PprofConfig>;

export const PrebuildsConfig = named(
  'PrebuildsConfig',
  Type.Object({
    failure_hard_limit: Type.Integer(),
    reconciliation_backoff_interval: Type.Integer(),
    reconciliation_backoff_lookback: Type.Integer(),
    reconciliation_interval: Type.Integer(),
  }),
);
export type PrebuildsConfig = Static<typeof PrebuildsConfig>;

export const PrometheusConfig = named(
  'PrometheusConfig',
  Type.Object({
    address: HostPort,
    aggregate_agent_stats_by: Type.Array(Type.String()),
    collect_agent_stats: Type.Boolean(),
    collect_db_metrics: Type.Boolean(),
    enable: Type.Boolean(),
  }),
);
export type PrometheusConfig = Static<typeof PrometheusConfig>;

export const ProvisionerConfig = named(
  'ProvisionerConfig',
  Type.Object({
    daemon_poll_interval: Type.Integer(),
    daemon_poll_jitter: Type.Integer(),
    daemon_psk: Type.String(),
    daemon_types: Type.Array(Type.String()),
    daemons: Type.Integer(),
    force_cancel_interval: Type.Integer(),
  }),
);
export type ProvisionerConfig = Static<typeof ProvisionerConfig>;

export const RateLimitConfig = named(
  'RateLimitConfig',
  Type.Object({
    api: Type.Integer(),
    disable_all: Type.Boolean(),
  }),
);
export type RateLimitConfig = Static<typeof RateLimitConfig>;

export const SSHConfig = named(
  'SSHConfig',
  Type.Object({
    DeploymentName: Type.String(),
    SSHConfigOptions: Type.Array(Type.String()),
  }),
);
export type SSHConfig = Static<typeof SSHConfig>;

export const SessionLifetime = named(
  'SessionLifetime',
  Type.Object({
    default_duration: Type.Integer(),
    default_token_lifetime: Type.Integer(),
    disable_expiry_refresh: Type.Boolean(),
    max_admin_token_lifetime: Type.Integer(),
    max_token_lifetime: Type.Integer(),
    refresh_default_duration: Type.Integer(),
  }),
);
export type SessionLifetime = Static<typeof SessionLifetime>;

export const LinkConfigs = named(
  'LinkConfigs',
  documentedAlso(Type.Array(LinkConfig), { type: 'object', properties: { value: Type.Array(LinkConfig) } }),
);
export type LinkConfigs = Static<typeof LinkConfigs>;

export const SupportConfig = named(
  'SupportConfig',
  Type.Object({
    links: LinkConfigs,
  }),
);
export type SupportConfig = Static<typeof SupportConfig>;

export const SwaggerConfig = named(
  'SwaggerConfig',
  Type.Object({
    enable: Type.Boolean(),
  }),
);
export type SwaggerConfig = Static<typeof SwaggerConfig>;

export const TLSConfig = named(
  'TLSConfig',
  Type.Object({
    address: HostPort,
    allow_insecure_ciphers: Type.Boolean(),
    cert_file: Type.Array(Type.String()),
    client_auth: Type.String(),
    client_ca_file: Type.String(),
    client_cert_file: Type.String(),
    client_key_file: Type.String(),
    enable: Type.Boolean(),
    key_file: Type.Array(Type.String()),
    min_version: Type.String(),
    redirect_http: Type.Boolean(),
    supported_ciphers: Type.Array(Type.String()),
  }),
);
export type TLSConfig = Static<typeof TLSConfig>;

export const TelemetryConfig = named(
  'TelemetryConfig',
  Type.Object({
    enable: Type.Boolean(),
    trace: Type.Boolean(),
    url: UrlValue,
  }),
);
export type TelemetryConfig = Static<typeof TelemetryConfig>;

export const TraceConfig = named(
  'TraceConfig',
  Type.Object({
    capture_logs: Type.Boolean(),
    data_dog: Type.Boolean(),
    enable: Type.Boolean(),
    honeycomb_api_key: Type.String(),
  }),
);
export type TraceConfig = Static<typeof TraceConfig>;

export const UserQuietHoursScheduleConfig = named(
  'UserQuietHoursScheduleConfig',
  Type.Object({
    allow_user_custom: Type.Boolean(),
    default_schedule: Type.String(),
  }),
);
export type UserQuietHoursScheduleConfig = Static<typeof UserQuietHoursScheduleConfig>;

export const ExternalAuthConfig = named(
  'ExternalAuthConfig',
  Type.Object({
    app_install_url: Type.String(),
    app_installations_url: Type.String(),
    auth_url: Type.String(),
    client_id: Type.String(),
    device_code_url: Type.String(),
    device_flow: Type.Boolean(),
    display_icon: Type.String(),
    display_name: Type.String(),
    id: Type.String(),
    no_refresh: Type.Boolean(),
    regex: Type.String(),
    scopes: Type.Array(Type.String()),
    token_url: Type.String(),
    type: Type.String(),
    validate_url: Type.String(),
  }),
);
export type ExternalAuthConfig = Static<typeof ExternalAuthConfig>;

export const ExternalAuthConfigs = named(
  'ExternalAuthConfigs',
  documentedAlso(Type.Array(ExternalAuthConfig), {
    type: 'object',
    properties: { value: Type.Array(ExternalAuthConfig) },
  }),
);
export type ExternalAuthConfigs = Static<typeof ExternalAuthConfigs>;

export const DeploymentValues = named(
  'DeploymentValues',
  Type.Object({
    access_url: UrlValue,
    additional_csp_policy: Type.Array(Type.String()),
    address: HostPort,
    agent_fallback_troubleshooting_url: UrlValue,
    agent_stat_refresh_interval: Type.Integer(),
    allow_workspace_renames: Type.Boolean(),
    autobuild_poll_interval: Type.Integer(),
    browser_only: Type.Boolean(),
    cache_directory: Type.String(),
    cli_upgrade_message: Type.String(),
    config: Type.String(),
    config_ssh: SSHConfig,
    dangerous: DangerousConfig,
    derp: DERP,
    disable_owner_workspace_exec: Type.Boolean(),
    disable_password_auth: Type.Boolean(),
    disable_path_apps: Type.Boolean(),
    docs_url: UrlValue,
    enable_terraform_debug_mode: Type.Boolean(),
    ephemeral_deployment: Type.Boolean(),
    experiments: Type.Array(Type.String()),
    external_auth: ExternalAuthConfigs,
    external_token_encryption_keys: Type.Array(Type.String()),
    healthcheck: HealthcheckConfig,
    /** Always true: workspaces cannot be shared with other people yet. */
    disable_workspace_sharing: Type.Boolean(),
    hide_ai_tasks: Type.Boolean(),
    http_address: Type.String(),
    http_cookies: HTTPCookieConfig,
    job_hang_detector_interval: Type.Integer(),
    logging: LoggingConfig,
    metrics_cache_refresh_interval: Type.Integer(),
    notifications: NotificationsConfig,
    oauth2: OAuth2Config,
    oidc: OIDCConfig,
    pg_auth: Type.String(),
    pg_connection_url: Type.String(),
    pprof: PprofConfig,
    prometheus: PrometheusConfig,
    provisioner: ProvisionerConfig,
    proxy_health_status_interval: Type.Integer(),
    proxy_trusted_headers: Type.Array(Type.String()),
    proxy_trusted_origins: Type.Array(Type.String()),
    rate_limit: RateLimitConfig,
    redirect_to_access_url: Type.Boolean(),
    scim_api_key: Type.String(),
    session_lifetime: SessionLifetime,
    ssh_keygen_algorithm: Type.String(),
    strict_transport_security: Type.Integer(),
    strict_transport_security_options: Type.Array(Type.String()),
    support: SupportConfig,
    swagger: SwaggerConfig,
    /** Always disabled: this server has no form that puts a template together. */
    template_builder: Type.Object({ disabled: Type.Boolean(), registry_url: Type.String() }),
    telemetry: TelemetryConfig,
    terms_of_service_url: Type.String(),
    tls: TLSConfig,
    trace: TraceConfig,
    update_check: Type.Boolean(),
    user_quiet_hours_schedule: UserQuietHoursScheduleConfig,
    verbose: Type.Boolean(),
    web_terminal_renderer: Type.String(),
    wgtunnel_host: Type.String(),
    wildcard_access_url: Type.String(),
    workspace_hostname_suffix: Type.String(),
    workspace_prebuilds: PrebuildsConfig,
    write_config: Type.Boolean(),
  }),
);
export type DeploymentValues = Static<typeof DeploymentValues>;

export const Annotations = named('Annotations', Type.Record(Type.String(), Type.String()));
export type Annotations = Static<typeof Annotations>;

const groupFields = { description: Type.String(), name: Type.String(), yaml: Type.String() };

/** A group within up to two others. */
export const DeploymentOptionGroup = named(
  'DeploymentOptionGroup',
  Type.Object({
    ...groupFields,
    parent: Type.Optional(Type.Object({ ...groupFields, parent: Type.Optional(Type.Object(groupFields)) })),
  }),
);
/** As the schema, without its limit of depth. */
export interface DeploymentOptionGroup {
  description: string;
  name: string;
  yaml: string;
  parent?: DeploymentOptionGroup;
}

export const ValueSource = named('ValueSource', stringEnum(['', 'flag', 'env', 'yaml', 'default']));
export type ValueSource = Static<typeof ValueSource>;

export const DeploymentOption = named(
  'DeploymentOption',
  Type.Object({
    annotations: Annotations,
    default: Type.String(),
    description: Type.String(),
    env: Type.String(),
    flag: Type.String(),
    flag_shorthand: Type.String(),
    group: DeploymentOptionGroup,
    hidden: Type.Boolean(),
    name: Type.String(),
    required: Type.Boolean(),
    use_instead: Type.Array(Type.Object({}, { additionalProperties: true })),
    value: Type.Unknown(),
    value_source: ValueSource,
    yaml: Type.String(),
  }),
);
export type DeploymentOption = Static<typeof DeploymentOption>;

export const DeploymentConfig = named(
  'DeploymentConfig',
  Type.Object({
    config: DeploymentValues,
    options: Type.Array(DeploymentOption),
  }),
);
export type DeploymentConfig = Static<typeof DeploymentConfig>;
