import { type Static, Type } from 'typebox';
import { Replica, WorkspaceProxy } from './deployment.ts';
import { TailnetDERPMap } from './health.ts';
import {
  Address,
  Credential,
  ImageAddress,
  Line,
  NotEmpty,
  named,
  Paragraph,
  stringEnum,
  Timestamp,
  Uuid,
  Whole,
} from './kit.ts';

export const CreateWorkspaceProxyRequest = named(
  'CreateWorkspaceProxyRequest',
  Type.Object({
    display_name: Type.Optional(Line),
    icon: Type.Optional(ImageAddress),
    name: NotEmpty,
  }),
);
export type CreateWorkspaceProxyRequest = Static<typeof CreateWorkspaceProxyRequest>;

/** Absent fields stay as they are. */
export const PatchWorkspaceProxy = named(
  'PatchWorkspaceProxy',
  Type.Object({
    display_name: Type.Optional(Line),
    icon: Type.Optional(ImageAddress),
    /** Ignored: the path names the proxy. */
    id: Type.Optional(Uuid),
    name: Type.Optional(NotEmpty),
    /** Whether the proxy gets a new token. The old one is invalid from then on. */
    regenerate_token: Type.Optional(Type.Boolean()),
  }),
);
export type PatchWorkspaceProxy = Static<typeof PatchWorkspaceProxy>;

export const UpdateWorkspaceProxyResponse = named(
  'UpdateWorkspaceProxyResponse',
  Type.Object({
    proxy: WorkspaceProxy,
    /** The new token. Empty if the proxy keeps its token. */
    proxy_token: Type.String(),
  }),
);
export type UpdateWorkspaceProxyResponse = Static<typeof UpdateWorkspaceProxyResponse>;

export const RegisterWorkspaceProxyRequest = named(
  'RegisterWorkspaceProxyRequest',
  Type.Object({
    /** The URL where people reach the proxy. */
    access_url: Address,
    derp_enabled: Type.Boolean(),
    derp_only: Type.Boolean(),
    /** Of the machine. */
    hostname: Type.Optional(Line),
    /** Why this process does not reach the other processes of its proxy. */
    replica_error: Type.Optional(Paragraph),
    /** A random id of the process. */
    replica_id: Uuid,
    /** Where other processes of the proxy reach this one. */
    replica_relay_address: Type.Optional(Address),
    version: Type.Optional(Line),
    /** Such as *.eu.example.com. Empty: no subdomain apps. */
    wildcard_hostname: Type.Optional(Line),
  }),
);
export type RegisterWorkspaceProxyRequest = Static<typeof RegisterWorkspaceProxyRequest>;

export const RegisterWorkspaceProxyResponse = named(
  'RegisterWorkspaceProxyResponse',
  Type.Object({
    derp_force_websockets: Type.Boolean(),
    derp_map: TailnetDERPMap,
    /** Always empty: relays of this server have no common secret. */
    derp_mesh_key: Type.String(),
    derp_region_id: Type.Integer(),
    /** The other processes of the proxy. */
    sibling_replicas: Type.Array(Replica),
  }),
);
export type RegisterWorkspaceProxyResponse = Static<typeof RegisterWorkspaceProxyResponse>;

export const DeregisterWorkspaceProxyRequest = named(
  'DeregisterWorkspaceProxyRequest',
  Type.Object({ replica_id: Uuid }),
);
export type DeregisterWorkspaceProxyRequest = Static<typeof DeregisterWorkspaceProxyRequest>;

export const CryptoKeyFeature = named(
  'CryptoKeyFeature',
  stringEnum(['workspace_apps_api_key', 'workspace_apps_token', 'oidc_convert', 'tailnet_resume']),
);
export type CryptoKeyFeature = Static<typeof CryptoKeyFeature>;

export const CryptoKey = named(
  'CryptoKey',
  Type.Object({
    deletes_at: Timestamp,
    feature: CryptoKeyFeature,
    /** An Ed25519 public key in hexadecimal digits. Despite the name it is not secret: proxies only verify. */
    secret: Type.String(),
    sequence: Type.Integer(),
    starts_at: Timestamp,
  }),
);
export type CryptoKey = Static<typeof CryptoKey>;

export const CryptoKeysResponse = named('CryptoKeysResponse', Type.Object({ crypto_keys: Type.Array(CryptoKey) }));
export type CryptoKeysResponse = Static<typeof CryptoKeysResponse>;

export const AccessMethod = named('AccessMethod', stringEnum(['path', 'subdomain', 'terminal']));
export type AccessMethod = Static<typeof AccessMethod>;

/** An app, as the URL at the proxy names it. A terminal has only `agent_name_or_id`, an id. */
export const AppTokenRequest = named(
  'AppTokenRequest',
  Type.Object({
    access_method: AccessMethod,
    agent_name_or_id: Type.Optional(Line),
    /** Must be empty: this server's apps have no prefix. */
    app_prefix: Type.Optional(Line),
    app_slug_or_port: Type.Optional(Line),
    base_path: Address,
    username_or_id: Type.Optional(Line),
    workspace_name_or_id: Type.Optional(Line),
  }),
);
export type AppTokenRequest = Static<typeof AppTokenRequest>;

export const IssueTokenRequest = named(
  'IssueTokenRequest',
  Type.Object({
    /** The proxy's wildcard host name. */
    app_hostname: Type.Optional(Line),
    app_path: Type.Optional(Address),
    app_query: Type.Optional(Type.String({ maxLength: 65_536 })),
    app_request: AppTokenRequest,
    /** The proxy's access URL. */
    path_app_base_url: Type.Optional(Address),
    /** The visitor's. Empty: a visitor without a session. */
    session_token: Type.Optional(Credential),
  }),
);
export type IssueTokenRequest = Static<typeof IssueTokenRequest>;

export const IssueSignedAppTokenResponse = named(
  'IssueSignedAppTokenResponse',
  Type.Object({ signed_token_str: Type.String() }),
);
export type IssueSignedAppTokenResponse = Static<typeof IssueSignedAppTokenResponse>;

/** A browser that comes back from signing in at the server. */
export const RedeemSignInRequest = named(
  'RedeemSignInRequest',
  Type.Object({
    /** From the URL. */
    handover: Credential,
    /** Of the request: that of the proxy, or of an app on its own host there. */
    host: Line,
  }),
);
export type RedeemSignInRequest = Static<typeof RedeemSignInRequest>;

export const RedeemSignInResponse = named(
  'RedeemSignInResponse',
  Type.Object({
    lifetime_ms: Whole,
    /** For `session_token` of IssueTokenRequest. Only servers can open it. */
    session: Type.String(),
  }),
);
export type RedeemSignInResponse = Static<typeof RedeemSignInResponse>;

/** How a person used an app through a proxy. */
export const StatsReport = named(
  'StatsReport',
  Type.Object({
    access_method: AccessMethod,
    agent_id: Uuid,
    requests: Whole,
    session_ended_at: Timestamp,
    session_id: Uuid,
    session_started_at: Timestamp,
    slug_or_port: Line,
    user_id: Uuid,
    workspace_id: Uuid,
  }),
);
export type StatsReport = Static<typeof StatsReport>;

export const ReportAppStatsRequest = named(
  'ReportAppStatsRequest',
  Type.Object({ stats: Type.Array(StatsReport, { maxItems: 1_024 }) }),
);
export type ReportAppStatsRequest = Static<typeof ReportAppStatsRequest>;
