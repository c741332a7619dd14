import { type Static, Type } from 'typebox';
import { WorkspaceProxiesResponse } from './deployment.ts';
import { Nullable, named, stringEnum, Timestamp, Uuid } from './kit.ts';
import { ProvisionerDaemon } from './provisioners.ts';

// The DERP types have the names of Go's fields, because upstream's structs give them no other.

export const ServerInfoMessage = named(
  'ServerInfoMessage',
  Type.Object({
    tokenBucketBytesBurst: Type.Integer(),
    tokenBucketBytesPerSecond: Type.Integer(),
  }),
);
export type ServerInfoMessage = Static<typeof ServerInfoMessage>;

export const HealthCode = named(
  'HealthCode',
  stringEnum([
    'EUNKNOWN',
    'EWP01',
    'EWP02',
    'EWP04',
    'EDB01',
    'EDB02',
    'EWS01',
    'EWS02',
    'EWS03',
    'EACS01',
    'EACS02',
    'EACS03',
    'EACS04',
    'EDERP01',
    'EDERP02',
    'EPD01',
    'EPD02',
    'EPD03',
  ]),
);
export type HealthCode = Static<typeof HealthCode>;

export const HealthMessage = named(
  'HealthMessage',
  Type.Object({
    code: HealthCode,
    message: Type.String(),
  }),
);
export type HealthMessage = Static<typeof HealthMessage>;

export const HealthSeverity = named('HealthSeverity', stringEnum(['ok', 'warning', 'error']));
export type HealthSeverity = Static<typeof HealthSeverity>;

export const AccessURLReport = named(
  'AccessURLReport',
  Type.Object({
    access_url: Type.String(),
    dismissed: Type.Boolean(),
    error: Nullable(Type.String()),
    healthy: Type.Boolean(),
    healthz_response: Type.String(),
    reachable: Type.Boolean(),
    severity: HealthSeverity,
    status_code: Type.Integer(),
    warnings: Type.Array(HealthMessage),
  }),
);
export type AccessURLReport = Static<typeof AccessURLReport>;

/** A client of the relay by its key, as `nodekey:` and hexadecimal digits. */
export const BytesSentRecv = named(
  'BytesSentRecv',
  Type.Object({ key: Type.String(), recv: Type.Integer(), sent: Type.Integer() }),
);
export type BytesSentRecv = Static<typeof BytesSentRecv>;

export const STUNReport = named(
  'STUNReport',
  Type.Object({
    CanSTUN: Type.Boolean(),
    Enabled: Type.Boolean(),
    Error: Nullable(Type.String()),
  }),
);
export type STUNReport = Static<typeof STUNReport>;

export const TailnetDERPNode = named(
  'TailnetDERPNode',
  Type.Object({
    CanPort80: Type.Boolean(),
    CertName: Type.String(),
    DERPPort: Type.Integer(),
    ForceHTTP: Type.Boolean(),
    HostName: Type.String(),
    InsecureForTests: Type.Boolean(),
    IPv4: Type.String(),
    IPv6: Type.String(),
    Name: Type.String(),
    RegionID: Type.Integer(),
    STUNOnly: Type.Boolean(),
    STUNPort: Type.Integer(),
    STUNTestIP: Type.String(),
  }),
);
export type TailnetDERPNode = Static<typeof TailnetDERPNode>;

export const DERPNodeReport = named(
  'DERPNodeReport',
  Type.Object({
    can_exchange_messages: Type.Boolean(),
    client_errs: Type.Array(Type.Array(Type.String())),
    client_logs: Type.Array(Type.Array(Type.String())),
    error: Type.String(),
    healthy: Type.Boolean(),
    node: TailnetDERPNode,
    node_info: ServerInfoMessage,
    round_trip_ping: Type.String(),
    round_trip_ping_ms: Type.Integer(),
    severity: HealthSeverity,
    stun: STUNReport,
    uses_websocket: Type.Boolean(),
    warnings: Type.Array(HealthMessage),
  }),
);
export type DERPNodeReport = Static<typeof DERPNodeReport>;

export const TailnetDERPRegion = named(
  'TailnetDERPRegion',
  Type.Object({
    Avoid: Type.Boolean(),
    EmbeddedRelay: Type.Boolean(),
    Nodes: Type.Array(TailnetDERPNode),
    RegionCode: Type.String(),
    RegionID: Type.Integer(),
    RegionName: Type.String(),
  }),
);
export type TailnetDERPRegion = Static<typeof TailnetDERPRegion>;

export const DERPRegionReport = named(
  'DERPRegionReport',
  Type.Object({
    error: Type.String(),
    healthy: Type.Boolean(),
    node_reports: Type.Array(DERPNodeReport),
    region: TailnetDERPRegion,
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
  }),
);
export type DERPRegionReport = Static<typeof DERPRegionReport>;

export const NetcheckReport = named(
  'NetcheckReport',
  Type.Object({
    CaptivePortal: Type.String(),
    GlobalV4: Type.String(),
    GlobalV6: Type.String(),
    HairPinning: Type.String(),
    ICMPv4: Type.Boolean(),
    IPv4: Type.Boolean(),
    IPv4CanSend: Type.Boolean(),
    IPv6: Type.Boolean(),
    IPv6CanSend: Type.Boolean(),
    MappingVariesByDestIP: Type.String(),
    OSHasIPv6: Type.Boolean(),
    PCP: Type.String(),
    PMP: Type.String(),
    PreferredDERP: Type.Integer(),
    RegionLatency: Type.Record(Type.String(), Type.Integer()),
    RegionV4Latency: Type.Record(Type.String(), Type.Integer()),
    RegionV6Latency: Type.Record(Type.String(), Type.Integer()),
    UDP: Type.Boolean(),
    UPnP: Type.String(),
  }),
);
export type NetcheckReport = Static<typeof NetcheckReport>;

export const DERPHealthReport = named(
  'DERPHealthReport',
  Type.Object({
    dismissed: Type.Boolean(),
    error: Nullable(Type.String()),
    healthy: Type.Boolean(),
    netcheck: Nullable(NetcheckReport),
    netcheck_err: Nullable(Type.String()),
    netcheck_logs: Type.Array(Type.String()),
    regions: Type.Record(Type.String(), DERPRegionReport),
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
  }),
);
export type DERPHealthReport = Static<typeof DERPHealthReport>;

export const DatabaseReport = named(
  'DatabaseReport',
  Type.Object({
    dismissed: Type.Boolean(),
    error: Nullable(Type.String()),
    healthy: Type.Boolean(),
    latency: Type.String(),
    latency_ms: Type.Integer(),
    reachable: Type.Boolean(),
    severity: HealthSeverity,
    threshold_ms: Type.Integer(),
    warnings: Type.Array(HealthMessage),
  }),
);
export type DatabaseReport = Static<typeof DatabaseReport>;

export const HealthSection = named(
  'HealthSection',
  stringEnum(['DERP', 'AccessURL', 'Websocket', 'Database', 'WorkspaceProxy', 'ProvisionerDaemons']),
);
export type HealthSection = Static<typeof HealthSection>;

export const HealthSettings = named(
  'HealthSettings',
  Type.Object({
    dismissed_healthchecks: Type.Array(HealthSection),
  }),
);
export type HealthSettings = Static<typeof HealthSettings>;

export const ProvisionerDaemonsReportItem = named(
  'ProvisionerDaemonsReportItem',
  Type.Object({
    provisioner_daemon: ProvisionerDaemon,
    warnings: Type.Array(HealthMessage),
  }),
);
export type ProvisionerDaemonsReportItem = Static<typeof ProvisionerDaemonsReportItem>;

export const ProvisionerDaemonsReport = named(
  'ProvisionerDaemonsReport',
  Type.Object({
    dismissed: Type.Boolean(),
    error: Nullable(Type.String()),
    items: Type.Array(ProvisionerDaemonsReportItem),
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
  }),
);
export type ProvisionerDaemonsReport = Static<typeof ProvisionerDaemonsReport>;

export const WebsocketReport = named(
  'WebsocketReport',
  Type.Object({
    body: Type.String(),
    code: Type.Integer(),
    dismissed: Type.Boolean(),
    error: Nullable(Type.String()),
    healthy: Type.Boolean(),
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
  }),
);
export type WebsocketReport = Static<typeof WebsocketReport>;

export const WorkspaceProxyReport = named(
  'WorkspaceProxyReport',
  Type.Object({
    dismissed: Type.Boolean(),
    error: Nullable(Type.String()),
    healthy: Type.Boolean(),
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
    workspace_proxies: WorkspaceProxiesResponse,
  }),
);
export type WorkspaceProxyReport = Static<typeof WorkspaceProxyReport>;

export const BackgroundTaskReport = named(
  'BackgroundTaskReport',
  Type.Object({
    name: Type.String(),
    period_ms: Type.Integer(),
    /** Null before the first run. */
    last_run_at: Nullable(Timestamp),
    duration_ms: Type.Integer(),
    error: Nullable(Type.String()),
    failures: Type.Integer(),
  }),
);
export type BackgroundTaskReport = Static<typeof BackgroundTaskReport>;

/** The background tasks of the server that answers. Not in upstream's report. */
export const BackgroundTasksReport = named(
  'BackgroundTasksReport',
  Type.Object({
    items: Type.Array(BackgroundTaskReport),
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
  }),
);
export type BackgroundTasksReport = Static<typeof BackgroundTasksReport>;

export const ReplicaReport = named(
  'ReplicaReport',
  Type.Object({
    id: Uuid,
    hostname: Type.String(),
    version: Type.String(),
    /** Where the other servers reach it. Empty if it has no such address. */
    relay_address: Type.String(),
    started_at: Timestamp,
    database_latency_ms: Type.Number(),
    /** Which other servers it cannot reach, and why. */
    error: Nullable(Type.String()),
  }),
);
export type ReplicaReport = Static<typeof ReplicaReport>;

/** The servers of the deployment. Not in upstream's report. */
export const ReplicasReport = named(
  'ReplicasReport',
  Type.Object({
    items: Type.Array(ReplicaReport),
    severity: HealthSeverity,
    warnings: Type.Array(HealthMessage),
  }),
);
export type ReplicasReport = Static<typeof ReplicasReport>;

export const HealthcheckReport = named(
  'HealthcheckReport',
  Type.Object({
    access_url: AccessURLReport,
    background_tasks: BackgroundTasksReport,
    coder_version: Type.String(),
    database: DatabaseReport,
    derp: DERPHealthReport,
    healthy: Type.Boolean(),
    provisioner_daemons: ProvisionerDaemonsReport,
    replicas: ReplicasReport,
    severity: HealthSeverity,
    time: Timestamp,
    websocket: WebsocketReport,
    workspace_proxy: WorkspaceProxyReport,
  }),
);
export type HealthcheckReport = Static<typeof HealthcheckReport>;

export const UpdateHealthSettings = named(
  'UpdateHealthSettings',
  Type.Object({
    dismissed_healthchecks: Type.Optional(Type.Array(HealthSection, { maxItems: 1_000 })),
  }),
);
export type UpdateHealthSettings = Static<typeof UpdateHealthSettings>;

export const TailnetDERPHomeParams = named(
  'TailnetDERPHomeParams',
  Type.Object({
    RegionScore: Type.Record(Type.String(), Type.Number()),
  }),
);
export type TailnetDERPHomeParams = Static<typeof TailnetDERPHomeParams>;

export const TailnetDERPMap = named(
  'TailnetDERPMap',
  Type.Object({
    HomeParams: TailnetDERPHomeParams,
    omitDefaultRegions: Type.Boolean(),
    Regions: Type.Record(Type.String(), TailnetDERPRegion),
  }),
);
export type TailnetDERPMap = Static<typeof TailnetDERPMap>;
