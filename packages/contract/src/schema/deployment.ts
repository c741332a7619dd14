import { type Static, Type } from 'typebox';
import { Address, documentedAlso, Line, named, Paragraph, stringEnum, Timestamp, Uuid, Whole } from './kit.ts';

export const AppHostResponse = named(
  'AppHostResponse',
  Type.Object({
    host: Type.String(),
  }),
);
export type AppHostResponse = Static<typeof AppHostResponse>;

/** What a browser reports when a page violates its content security policy. */
export const CSPViolation = named(
  'CSPViolation',
  Type.Object({
    /** Browsers add further fields, which are ignored. */
    'csp-report': Type.Optional(
      Type.Object({
        'blocked-uri': Type.Optional(Address),
        'document-uri': Type.Optional(Address),
        'effective-directive': Type.Optional(Line),
        'line-number': Type.Optional(Whole),
        'source-file': Type.Optional(Address),
        'violated-directive': Type.Optional(Line),
      }),
    ),
  }),
);
export type CSPViolation = Static<typeof CSPViolation>;

export const BannerConfig = named(
  'BannerConfig',
  Type.Object({
    background_color: Type.Optional(Type.String()),
    enabled: Type.Boolean(),
    message: Type.Optional(Type.String()),
  }),
);
export type BannerConfig = Static<typeof BannerConfig>;

export const LinkConfig = named(
  'LinkConfig',
  Type.Object({
    icon: stringEnum(['bug', 'chat', 'docs', 'star']),
    /** Where the dashboard shows the link. Default: in the menu of the account. */
    location: Type.Optional(stringEnum(['navbar', 'dropdown'])),
    name: Type.String(),
    target: Type.String(),
  }),
);
export type LinkConfig = Static<typeof LinkConfig>;

export const AppearanceConfig = named(
  'AppearanceConfig',
  Type.Object({
    announcement_banners: Type.Array(BannerConfig),
    application_name: Type.String(),
    docs_url: Type.String(),
    logo_url: Type.String(),
    service_banner: BannerConfig,
    support_links: Type.Optional(Type.Array(LinkConfig)),
    /** Whether a template has AI tasks, and the deployment does not hide them. Not in upstream's answer. */
    tasks_visible: Type.Boolean(),
  }),
);
export type AppearanceConfig = Static<typeof AppearanceConfig>;

const UpdatedBanner = Type.Object({
  background_color: Type.Optional(Line),
  enabled: Type.Boolean(),
  message: Type.Optional(Paragraph),
});

export const UpdateAppearanceConfig = named(
  'UpdateAppearanceConfig',
  Type.Object({
    announcement_banners: Type.Optional(Type.Array(UpdatedBanner, { maxItems: 10 })),
    application_name: Type.Optional(Line),
    logo_url: Type.Optional(Address),
    /** The first announcement banner. Used if announcement_banners is absent. */
    service_banner: Type.Optional(UpdatedBanner),
  }),
);
export type UpdateAppearanceConfig = Static<typeof UpdateAppearanceConfig>;

export const BuildInfoResponse = named(
  'BuildInfoResponse',
  Type.Object({
    agent_api_version: Type.String(),
    dashboard_url: Type.String(),
    deployment_id: Type.String(),
    external_url: Type.String(),
    provisioner_api_version: Type.String(),
    telemetry: Type.Boolean(),
    upgrade_message: Type.Optional(Type.String()),
    version: Type.String(),
    webpush_public_key: Type.Optional(Type.String()),
    workspace_proxy: Type.Boolean(),
  }),
);
export type BuildInfoResponse = Static<typeof BuildInfoResponse>;

export const PrebuildsSettings = named(
  'PrebuildsSettings',
  Type.Object({
    /** Whether the server neither creates nor deletes prebuilt workspaces. */
    reconciliation_paused: Type.Boolean(),
  }),
);
export type PrebuildsSettings = Static<typeof PrebuildsSettings>;

const EncryptionKey = named(
  'EncryptionKey',
  Type.Object({
    /** The first 16 hex digits of the SHA-256 of the key. */
    fingerprint: Type.String(),
    /** Whether new secrets are encrypted with it. */
    active: Type.Boolean(),
    /** How many stored secrets need it. */
    secrets: Type.Integer(),
  }),
);
const ServedCertificate = named(
  'ServedCertificate',
  Type.Object({
    /** The path of its file on the server. */
    file: Type.String(),
    subject: Type.String(),
    issuer: Type.String(),
    /** The DNS names and IP addresses that it is valid for. */
    names: Type.Array(Type.String()),
    not_before: Timestamp,
    not_after: Timestamp,
    /** Whether it is valid for the host of the access URL. */
    matches_access_url: Type.Boolean(),
  }),
);
export type ServedCertificate = Static<typeof ServedCertificate>;
/** Not in upstream's API. */
export const DeploymentSecurity = named(
  'DeploymentSecurity',
  Type.Object({
    access_url: Type.String(),
    encryption: Type.Object({
      /** In the order of --external-token-encryption-keys. */
      keys: Type.Array(EncryptionKey),
      /** How many secrets are stored without encryption. */
      unencrypted_secrets: Type.Integer(),
    }),
    tls: Type.Object({
      enabled: Type.Boolean(),
      /** Of the listener, when TLS is enabled. */
      address: Type.String(),
      min_version: Type.String(),
      client_auth: Type.String(),
      redirects_to_access_url: Type.Boolean(),
      /** Of the header Strict-Transport-Security, in seconds. 0: it is not sent. */
      hsts_seconds: Type.Integer(),
      certificates: Type.Array(ServedCertificate),
    }),
  }),
);
export type DeploymentSecurity = Static<typeof DeploymentSecurity>;

export const SessionCountDeploymentStats = named(
  'SessionCountDeploymentStats',
  Type.Object({
    jetbrains: Type.Integer(),
    reconnecting_pty: Type.Integer(),
    ssh: Type.Integer(),
    vscode: Type.Integer(),
  }),
);
export type SessionCountDeploymentStats = Static<typeof SessionCountDeploymentStats>;

export const WorkspaceConnectionLatencyMS = named(
  'WorkspaceConnectionLatencyMS',
  Type.Object({
    P50: Type.Number(),
    P95: Type.Number(),
  }),
);
export type WorkspaceConnectionLatencyMS = Static<typeof WorkspaceConnectionLatencyMS>;

export const WorkspaceDeploymentStats = named(
  'WorkspaceDeploymentStats',
  Type.Object({
    building: Type.Integer(),
    connection_latency_ms: WorkspaceConnectionLatencyMS,
    failed: Type.Integer(),
    pending: Type.Integer(),
    running: Type.Integer(),
    rx_bytes: Type.Integer(),
    stopped: Type.Integer(),
    tx_bytes: Type.Integer(),
  }),
);
export type WorkspaceDeploymentStats = Static<typeof WorkspaceDeploymentStats>;

export const DeploymentStats = named(
  'DeploymentStats',
  Type.Object({
    aggregated_from: Timestamp,
    collected_at: Timestamp,
    next_update_at: Timestamp,
    session_count: SessionCountDeploymentStats,
    workspaces: WorkspaceDeploymentStats,
  }),
);
export type DeploymentStats = Static<typeof DeploymentStats>;

export const Entitlement = named('Entitlement', stringEnum(['entitled', 'grace_period', 'not_entitled']));
export type Entitlement = Static<typeof Entitlement>;

export const UsagePeriod = named(
  'UsagePeriod',
  Type.Object({
    end: Timestamp,
    issued_at: Timestamp,
    start: Timestamp,
  }),
);
export type UsagePeriod = Static<typeof UsagePeriod>;

export const Feature = named(
  'Feature',
  Type.Object({
    actual: Type.Optional(Type.Integer()),
    enabled: Type.Boolean(),
    entitlement: Entitlement,
    limit: Type.Optional(Type.Integer()),
    soft_limit: Type.Optional(Type.Integer()),
    usage_period: Type.Optional(UsagePeriod),
  }),
);
export type Feature = Static<typeof Feature>;

export const Entitlements = named(
  'Entitlements',
  Type.Object({
    errors: Type.Array(Type.String()),
    features: Type.Record(Type.String(), Feature),
    has_license: Type.Boolean(),
    refreshed_at: Timestamp,
    require_telemetry: Type.Boolean(),
    trial: Type.Boolean(),
    warnings: Type.Array(Type.String()),
  }),
);
export type Entitlements = Static<typeof Entitlements>;

export const Experiment = named(
  'Experiment',
  stringEnum([
    'example',
    'auto-fill-parameters',
    'notifications',
    'workspace-usage',
    'web-push',
    'oauth2',
    'mcp-server-http',
    'workspace-build-updates',
    'minimum-implicit-member',
  ]),
);
export type Experiment = Static<typeof Experiment>;

/** Upstream's API document says a list. Its programs send and read the list in an object. */
export const AvailableExperiments = named(
  'AvailableExperiments',
  documentedAlso(Type.Object({ safe: Type.Array(Experiment) }), Type.Array(Experiment)),
);
export type AvailableExperiments = Static<typeof AvailableExperiments>;

export const ProxyHealthReport = named(
  'ProxyHealthReport',
  Type.Object({
    errors: Type.Array(Type.String()),
    warnings: Type.Array(Type.String()),
  }),
);
export type ProxyHealthReport = Static<typeof ProxyHealthReport>;

export const ProxyHealthStatus = named(
  'ProxyHealthStatus',
  stringEnum(['ok', 'unreachable', 'unhealthy', 'unregistered']),
);
export type ProxyHealthStatus = Static<typeof ProxyHealthStatus>;

export const WorkspaceProxyStatus = named(
  'WorkspaceProxyStatus',
  Type.Object({
    checked_at: Timestamp,
    report: ProxyHealthReport,
    status: ProxyHealthStatus,
  }),
);
export type WorkspaceProxyStatus = Static<typeof WorkspaceProxyStatus>;

export const WorkspaceProxy = named(
  'WorkspaceProxy',
  Type.Object({
    created_at: Timestamp,
    deleted: Type.Boolean(),
    derp_enabled: Type.Boolean(),
    derp_only: Type.Boolean(),
    display_name: Type.String(),
    healthy: Type.Boolean(),
    icon_url: Type.String(),
    id: Uuid,
    /** When a process of the proxy last registered. Absent for the primary region and before the first registration. */
    last_seen_at: Type.Optional(Timestamp),
    name: Type.String(),
    path_app_url: Type.String(),
    status: Type.Optional(WorkspaceProxyStatus),
    updated_at: Timestamp,
    version: Type.String(),
    wildcard_hostname: Type.String(),
  }),
);
export type WorkspaceProxy = Static<typeof WorkspaceProxy>;

export const WorkspaceProxiesResponse = named(
  'WorkspaceProxiesResponse',
  Type.Object({
    regions: Type.Array(WorkspaceProxy),
  }),
);
export type WorkspaceProxiesResponse = Static<typeof WorkspaceProxiesResponse>;

export const Replica = named(
  'Replica',
  Type.Object({
    created_at: Timestamp,
    /** In microseconds. */
    database_latency: Type.Integer(),
    error: Type.String(),
    hostname: Type.String(),
    id: Uuid,
    region_id: Type.Integer(),
    relay_address: Type.String(),
  }),
);
export type Replica = Static<typeof Replica>;

export const License = named(
  'License',
  Type.Object({
    claims: Type.Record(Type.String(), Type.Unknown()),
    id: Type.Integer(),
    uploaded_at: Timestamp,
    uuid: Uuid,
  }),
);
export type License = Static<typeof License>;

export const SSHConfigResponse = named(
  'SSHConfigResponse',
  Type.Object({
    hostname_prefix: Type.String(),
    hostname_suffix: Type.String(),
    ssh_config_options: Type.Record(Type.String(), Type.String()),
  }),
);
export type SSHConfigResponse = Static<typeof SSHConfigResponse>;

export const UpdateCheckResponse = named(
  'UpdateCheckResponse',
  Type.Object({
    current: Type.Boolean(),
    url: Type.String(),
    version: Type.String(),
  }),
);
export type UpdateCheckResponse = Static<typeof UpdateCheckResponse>;

export const UrlUserinfo = named('UrlUserinfo', Type.Record(Type.String(), Type.Unknown()));
export type UrlUserinfo = Static<typeof UrlUserinfo>;
