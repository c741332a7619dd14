import { type Static, Type } from 'typebox';
import { PERMISSIONS, type PermissionResource } from '../permissions.ts';
import { MAX_ALLOW_LIST, MAX_SCOPES } from '../token-scopes.ts';
import { KeyLoginType, LoginType, SlimRole, UserStatus } from './common.ts';
import {
  documentedAlso,
  ImageAddress,
  Line,
  NotEmpty,
  Nullable,
  named,
  Paragraph,
  stringEnum,
  Timestamp,
  Uuid,
  Whole,
} from './kit.ts';

export const APIKeyScope = named('APIKeyScope', stringEnum(['all', 'application_connect']));
export type APIKeyScope = Static<typeof APIKeyScope>;

/** The name of a scope, such as `workspace:read`. GET /auth/scopes lists them. */
const ScopeName = Type.String({ maxLength: 64 });
/** An object, all objects of a type, or all: `workspace:<uuid>`, `workspace:*` or `*:*`. */
const AllowListEntry = Type.String({ maxLength: 128 });

export const ExternalAPIKeyScopes = named('ExternalAPIKeyScopes', Type.Object({ external: Type.Array(ScopeName) }));
export type ExternalAPIKeyScopes = Static<typeof ExternalAPIKeyScopes>;

export const APIKey = named(
  'APIKey',
  Type.Object({
    allow_list: Type.Array(AllowListEntry),
    created_at: Timestamp,
    expires_at: Timestamp,
    id: Type.String(),
    last_used: Timestamp,
    lifetime_seconds: Type.Integer(),
    login_type: KeyLoginType,
    /** Absent for a token with other scopes than these. */
    scope: Type.Optional(APIKeyScope),
    scopes: Type.Array(ScopeName),
    token_name: Type.String(),
    updated_at: Timestamp,
    user_id: Uuid,
  }),
);
export type APIKey = Static<typeof APIKey>;

/** As upstream's programs send and read it in lists. Upstream's API document omits the name. */
export const APIKeyWithOwner = named('APIKeyWithOwner', Type.Object({ ...APIKey.properties, username: Type.String() }));
export type APIKeyWithOwner = Static<typeof APIKeyWithOwner>;

export const RBACAction = named(
  'RBACAction',
  stringEnum([
    'application_connect',
    'assign',
    'create',
    'create_agent',
    'delete',
    'delete_agent',
    'share',
    'read',
    'read_personal',
    'ssh',
    'unassign',
    'update',
    'update_personal',
    'use',
    'view_insights',
    'start',
    'stop',
  ]),
);
export type RBACAction = Static<typeof RBACAction>;

/** `*` stands for all of them. */
export const RBACResource = named(
  'RBACResource',
  stringEnum(['*', ...(Object.keys(PERMISSIONS) as PermissionResource[])] as const),
);
export type RBACResource = Static<typeof RBACResource>;

export const Permission = named(
  'Permission',
  Type.Object({
    action: RBACAction,
    negate: Type.Boolean(),
    resource_type: RBACResource,
  }),
);
export type Permission = Static<typeof Permission>;

export const AssignableRoles = named(
  'AssignableRoles',
  Type.Object({
    assignable: Type.Boolean(),
    built_in: Type.Boolean(),
    display_name: Type.String(),
    name: Type.String(),
    organization_id: Type.Optional(Uuid),
    /** What the members who have the role may do with their own resources in the organization. */
    organization_member_permissions: Type.Array(Permission),
    organization_permissions: Type.Array(Permission),
    site_permissions: Type.Array(Permission),
    user_permissions: Type.Array(Permission),
  }),
);
export type AssignableRoles = Static<typeof AssignableRoles>;

/** A custom role of an organization. Only its organization permissions have entries. */
export const Role = named(
  'Role',
  Type.Object({
    display_name: Type.String(),
    name: Type.String(),
    organization_id: Type.Optional(Uuid),
    /** What the members who have the role may do with their own resources in the organization. */
    organization_member_permissions: Type.Array(Permission),
    organization_permissions: Type.Array(Permission),
    site_permissions: Type.Array(Permission),
    user_permissions: Type.Array(Permission),
  }),
);
export type Role = Static<typeof Role>;

/** The same in a request. Upstream's dashboard leaves `negate` out. */
const Permissions = Type.Array(Type.Object({ ...Permission.properties, negate: Type.Optional(Type.Boolean()) }), {
  maxItems: 1_000,
});

export const CustomRoleRequest = named(
  'CustomRoleRequest',
  Type.Object({
    display_name: Type.Optional(Line),
    name: Line,
    organization_member_permissions: Type.Optional(Permissions),
    organization_permissions: Type.Optional(Permissions),
    site_permissions: Type.Optional(Permissions),
    user_permissions: Type.Optional(Permissions),
  }),
);
export type CustomRoleRequest = Static<typeof CustomRoleRequest>;

export const AuthMethod = named(
  'AuthMethod',
  Type.Object({
    enabled: Type.Boolean(),
  }),
);
export type AuthMethod = Static<typeof AuthMethod>;

export const GithubAuthMethod = named(
  'GithubAuthMethod',
  Type.Object({
    default_provider_configured: Type.Boolean(),
    enabled: Type.Boolean(),
  }),
);
export type GithubAuthMethod = Static<typeof GithubAuthMethod>;

export const OIDCAuthMethod = named(
  'OIDCAuthMethod',
  Type.Object({
    enabled: Type.Boolean(),
    iconUrl: Type.String(),
    signInText: Type.String(),
  }),
);
export type OIDCAuthMethod = Static<typeof OIDCAuthMethod>;

export const AuthMethods = named(
  'AuthMethods',
  Type.Object({
    github: GithubAuthMethod,
    oidc: OIDCAuthMethod,
    password: AuthMethod,
    /** Whether people can set a forgotten password with a code that is sent by mail. */
    password_reset: AuthMethod,
    terms_of_service_url: Type.Optional(Type.String()),
  }),
);
export type AuthMethods = Static<typeof AuthMethods>;

export const AuthorizationObject = named(
  'AuthorizationObject',
  Type.Object({
    any_org: Type.Optional(Type.Boolean()),
    organization_id: Type.Optional(NotEmpty),
    owner_id: Type.Optional(NotEmpty),
    resource_id: Type.Optional(NotEmpty),
    /** An RBACResource, or a type that only newer clients know. */
    resource_type: NotEmpty,
  }),
);
export type AuthorizationObject = Static<typeof AuthorizationObject>;

export const AuthorizationCheck = named(
  'AuthorizationCheck',
  Type.Object({
    /** An RBACAction, or an action that only newer clients know. */
    action: Line,
    object: AuthorizationObject,
  }),
);
export type AuthorizationCheck = Static<typeof AuthorizationCheck>;

/** Go clients send durations in nanoseconds as 64-bit integers. */
const [MIN_INT64, MAX_INT64] = [-(2 ** 63), 2 ** 63];

export const AuthorizationRequest = named(
  'AuthorizationRequest',
  Type.Object({
    checks: Type.Optional(Type.Record(Line, AuthorizationCheck, { maxProperties: 1_000 })),
  }),
);
export type AuthorizationRequest = Static<typeof AuthorizationRequest>;

export const AuthorizationResponse = named('AuthorizationResponse', Type.Record(Type.String(), Type.Boolean()));
export type AuthorizationResponse = Static<typeof AuthorizationResponse>;

export const CreateFirstUserTrialInfo = named(
  'CreateFirstUserTrialInfo',
  Type.Object({
    company_name: Line,
    country: Line,
    developers: Line,
    first_name: Line,
    job_title: Line,
    last_name: Line,
    phone_number: Line,
  }),
);
export type CreateFirstUserTrialInfo = Static<typeof CreateFirstUserTrialInfo>;

export const CreateFirstUserOnboardingInfo = named(
  'CreateFirstUserOnboardingInfo',
  Type.Object({
    newsletter_marketing: Type.Optional(Type.Boolean()),
    newsletter_releases: Type.Optional(Type.Boolean()),
  }),
);
export type CreateFirstUserOnboardingInfo = Static<typeof CreateFirstUserOnboardingInfo>;

export const CreateFirstUserRequest = named(
  'CreateFirstUserRequest',
  Type.Object({
    email: Line,
    name: Type.Optional(Line),
    /** Dropped, like `trial_info`: nothing is sent to anyone. */
    onboarding_info: Type.Optional(CreateFirstUserOnboardingInfo),
    password: Line,
    trial: Type.Optional(Type.Boolean()),
    trial_info: Type.Optional(CreateFirstUserTrialInfo),
    username: Line,
  }),
);
export type CreateFirstUserRequest = Static<typeof CreateFirstUserRequest>;

export const CreateFirstUserResponse = named(
  'CreateFirstUserResponse',
  Type.Object({
    organization_id: Uuid,
    user_id: Uuid,
  }),
);
export type CreateFirstUserResponse = Static<typeof CreateFirstUserResponse>;

export const CreateOrganizationRequest = named(
  'CreateOrganizationRequest',
  Type.Object({
    description: Type.Optional(Paragraph),
    display_name: Type.Optional(Line),
    icon: Type.Optional(ImageAddress),
    name: Line,
  }),
);
export type CreateOrganizationRequest = Static<typeof CreateOrganizationRequest>;

export const CreateTokenRequest = named(
  'CreateTokenRequest',
  Type.Object({
    /** Default: every object. */
    allow_list: Type.Optional(Type.Array(AllowListEntry, { maxItems: MAX_ALLOW_LIST })),
    /** In nanoseconds, as Go clients send it. */
    lifetime: Type.Optional(Type.Integer({ minimum: MIN_INT64, maximum: MAX_INT64 })),
    scope: Type.Optional(APIKeyScope),
    /** Default: the one in `scope`. */
    scopes: Type.Optional(Type.Array(ScopeName, { maxItems: MAX_SCOPES })),
    token_name: Type.Optional(Line),
  }),
);
export type CreateTokenRequest = Static<typeof CreateTokenRequest>;

export const CreateUserRequestWithOrgs = named(
  'CreateUserRequestWithOrgs',
  Type.Object({
    /** Required, except for a service account, which has none. */
    email: Type.Optional(Line),
    login_type: Type.Optional(LoginType),
    name: Type.Optional(Line),
    /** Clients before 2.15 send one organization. */
    organization_id: Type.Optional(Uuid),
    organization_ids: Type.Optional(Type.Array(Uuid, { maxItems: 1_000 })),
    password: Type.Optional(Line),
    /** Roles of the site. */
    roles: Type.Optional(Nullable(Type.Array(Line, { maxItems: 1_000 }))),
    /** Whether nobody signs in to the account: administrators make tokens for it. */
    service_account: Type.Optional(Type.Boolean()),
    user_status: Type.Optional(UserStatus),
    username: Line,
  }),
);
export type CreateUserRequestWithOrgs = Static<typeof CreateUserRequestWithOrgs>;

export const GenerateAPIKeyResponse = named(
  'GenerateAPIKeyResponse',
  Type.Object({
    key: Type.String(),
  }),
);
export type GenerateAPIKeyResponse = Static<typeof GenerateAPIKeyResponse>;

export const User = named(
  'User',
  Type.Object({
    avatar_url: Type.Optional(Type.String()),
    created_at: Timestamp,
    email: Type.String(),
    /** Always false: there are no seats to buy. */
    has_ai_seat: Type.Boolean(),
    id: Uuid,
    /** Absent in the accounts of people. */
    is_service_account: Type.Optional(Type.Boolean()),
    last_seen_at: Type.Optional(Timestamp),
    login_type: LoginType,
    name: Type.Optional(Type.String()),
    organization_ids: Type.Array(Uuid),
    roles: Type.Array(SlimRole),
    status: UserStatus,
    theme_preference: Type.Optional(Type.String()),
    updated_at: Timestamp,
    username: Type.String(),
  }),
);
export type User = Static<typeof User>;

/** Upstream's API document says User. Its programs send and read only the names. */
export const UserRoles = named(
  'UserRoles',
  documentedAlso(
    Type.Object({
      organization_roles: Type.Record(Type.String(), Type.Array(Type.String())),
      roles: Type.Array(Type.String()),
    }),
    User,
  ),
);
export type UserRoles = Static<typeof UserRoles>;

export const GetUsersResponse = named(
  'GetUsersResponse',
  Type.Object({
    count: Type.Integer(),
    users: Type.Array(User),
  }),
);
export type GetUsersResponse = Static<typeof GetUsersResponse>;

export const GitSSHKey = named(
  'GitSSHKey',
  Type.Object({
    created_at: Timestamp,
    public_key: Type.String(),
    updated_at: Timestamp,
    user_id: Uuid,
  }),
);
export type GitSSHKey = Static<typeof GitSSHKey>;

export const LoginWithPasswordRequest = named(
  'LoginWithPasswordRequest',
  Type.Object({
    email: Line,
    password: Line,
  }),
);
export type LoginWithPasswordRequest = Static<typeof LoginWithPasswordRequest>;

export const LoginWithPasswordResponse = named(
  'LoginWithPasswordResponse',
  Type.Object({
    session_token: Type.String(),
  }),
);
export type LoginWithPasswordResponse = Static<typeof LoginWithPasswordResponse>;

export const Organization = named(
  'Organization',
  Type.Object({
    created_at: Timestamp,
    /** The names of built-in roles that all members have. */
    default_org_member_roles: Type.Array(Type.String()),
    description: Type.Optional(Type.String()),
    display_name: Type.String(),
    icon: Type.Optional(Type.String()),
    id: Uuid,
    is_default: Type.Boolean(),
    name: Type.String(),
    updated_at: Timestamp,
  }),
);
export type Organization = Static<typeof Organization>;

export const OrganizationMember = named(
  'OrganizationMember',
  Type.Object({
    created_at: Timestamp,
    organization_id: Uuid,
    roles: Type.Array(SlimRole),
    updated_at: Timestamp,
    user_id: Uuid,
  }),
);
export type OrganizationMember = Static<typeof OrganizationMember>;

export const OrganizationMemberWithUserData = named(
  'OrganizationMemberWithUserData',
  Type.Object({
    avatar_url: Type.Optional(Type.String()),
    created_at: Timestamp,
    email: Type.String(),
    global_roles: Type.Array(SlimRole),
    /** Always false: there are no seats to buy. */
    has_ai_seat: Type.Boolean(),
    /** Absent in the accounts of people. */
    is_service_account: Type.Optional(Type.Boolean()),
    last_seen_at: Timestamp,
    login_type: LoginType,
    name: Type.Optional(Type.String()),
    organization_id: Uuid,
    roles: Type.Array(SlimRole),
    status: UserStatus,
    updated_at: Timestamp,
    /** When the account was made and changed. The times without `user_` are those of the membership. */
    user_created_at: Timestamp,
    user_id: Uuid,
    user_updated_at: Timestamp,
    username: Type.String(),
  }),
);
export type OrganizationMemberWithUserData = Static<typeof OrganizationMemberWithUserData>;

/** The query of a list of people. `q` as in `GET /users`. */
export const PeopleQuery = Type.Object({
  q: Type.Optional(Type.String()),
  after_id: Type.Optional(NotEmpty),
  limit: Type.Optional(Whole),
  offset: Type.Optional(Whole),
});

export const PaginatedMembersResponse = named(
  'PaginatedMembersResponse',
  Type.Object({
    count: Type.Integer(),
    members: Type.Array(OrganizationMemberWithUserData),
  }),
);
export type PaginatedMembersResponse = Static<typeof PaginatedMembersResponse>;

export const TerminalFontName = named(
  'TerminalFontName',
  stringEnum(['', 'ibm-plex-mono', 'fira-code', 'source-code-pro', 'jetbrains-mono', 'geist-mono']),
);
export type TerminalFontName = Static<typeof TerminalFontName>;

export const TokenConfig = named(
  'TokenConfig',
  Type.Object({
    max_token_lifetime: Type.Integer(),
  }),
);
export type TokenConfig = Static<typeof TokenConfig>;

export const UpdateOrganizationRequest = named(
  'UpdateOrganizationRequest',
  Type.Object({
    /** Replaces the names of the built-in roles that all members have. */
    default_org_member_roles: Type.Optional(Type.Array(Line, { maxItems: 20 })),
    description: Type.Optional(Paragraph),
    display_name: Type.Optional(Line),
    icon: Type.Optional(ImageAddress),
    name: Type.Optional(NotEmpty),
  }),
);
export type UpdateOrganizationRequest = Static<typeof UpdateOrganizationRequest>;

export const UpdateRoles = named(
  'UpdateRoles',
  Type.Object({
    roles: Type.Optional(Type.Array(Line, { maxItems: 1_000 })),
  }),
);
export type UpdateRoles = Static<typeof UpdateRoles>;

/** Upstream's: `sync` follows the system with a light and a dark theme. Empty if the person has not chosen since 2.36. */
const ThemeMode = stringEnum(['', 'single', 'sync']);
const THEMES = ['light', 'light-protan-deuter', 'light-tritan', 'dark', 'dark-protan-deuter', 'dark-tritan'] as const;
/** Empty if none is chosen. */
const SyncTheme = stringEnum(['', ...THEMES]);

export const UpdateUserAppearanceSettingsRequest = named(
  'UpdateUserAppearanceSettingsRequest',
  Type.Object({
    terminal_font: TerminalFontName,
    theme_dark: Type.Optional(SyncTheme),
    theme_light: Type.Optional(SyncTheme),
    /** Clients before 2.36 leave it out. Then the mode and both themes stay, except that `auto` clears the mode. */
    theme_mode: Type.Optional(ThemeMode),
    theme_preference: Line,
  }),
);
export type UpdateUserAppearanceSettingsRequest = Static<typeof UpdateUserAppearanceSettingsRequest>;

export const UpdateUserPasswordRequest = named(
  'UpdateUserPasswordRequest',
  Type.Object({
    old_password: Type.Optional(Line),
    password: Line,
  }),
);
export type UpdateUserPasswordRequest = Static<typeof UpdateUserPasswordRequest>;

export const UpdateUserProfileRequest = named(
  'UpdateUserProfileRequest',
  Type.Object({
    /** Ignored for accounts whose provider sends a picture at each sign-in. */
    avatar_url: Type.Optional(ImageAddress),
    name: Type.Optional(Line),
    username: Line,
  }),
);
export type UpdateUserProfileRequest = Static<typeof UpdateUserProfileRequest>;

export const UpdateUserQuietHoursScheduleRequest = named(
  'UpdateUserQuietHoursScheduleRequest',
  Type.Object({
    schedule: Line,
  }),
);
export type UpdateUserQuietHoursScheduleRequest = Static<typeof UpdateUserQuietHoursScheduleRequest>;

export const OAuth2DeviceFlowCallbackResponse = named(
  'OAuth2DeviceFlowCallbackResponse',
  Type.Object({
    redirect_url: Type.String(),
  }),
);
export type OAuth2DeviceFlowCallbackResponse = Static<typeof OAuth2DeviceFlowCallbackResponse>;

/** A browser or a program in which a person is signed in. */
export const UserSession = named(
  'UserSession',
  Type.Object({
    id: Type.String(),
    login_type: KeyLoginType,
    /** Where it was started. */
    ip_address: Type.String(),
    created_at: Timestamp,
    last_used: Timestamp,
    expires_at: Timestamp,
    /** Whether the request uses it. */
    current: Type.Boolean(),
  }),
);
export type UserSession = Static<typeof UserSession>;

export const ConvertLoginRequest = named(
  'ConvertLoginRequest',
  Type.Object({
    /** One's own current password, or another person's new one. Not needed for other types than `password`. */
    password: Line,
    to_type: LoginType,
  }),
);
export type ConvertLoginRequest = Static<typeof ConvertLoginRequest>;

export const OAuthConversionResponse = named(
  'OAuthConversionResponse',
  Type.Object({
    expires_at: Timestamp,
    state_string: Type.String(),
    to_type: LoginType,
    user_id: Uuid,
  }),
);
export type OAuthConversionResponse = Static<typeof OAuthConversionResponse>;

export const UserAppearanceSettings = named(
  'UserAppearanceSettings',
  Type.Object({
    terminal_font: TerminalFontName,
    theme_dark: SyncTheme,
    theme_light: SyncTheme,
    theme_mode: ThemeMode,
    theme_preference: Type.String(),
  }),
);
export type UserAppearanceSettings = Static<typeof UserAppearanceSettings>;

const ThinkingDisplayMode = stringEnum(['auto', 'preview', 'always_expanded', 'always_collapsed']);
const AGENT_DISPLAY_MODES = ['auto', 'always_expanded', 'always_collapsed'] as const;
const SendShortcut = stringEnum(['enter', 'modifier_enter']);

/** What a person chose about the dashboard's display, as upstream's dashboard of 2.36 reads it. */
export const UserPreferenceSettings = named(
  'UserPreferenceSettings',
  Type.Object({
    agent_chat_send_shortcut: SendShortcut,
    /** Empty if the person chose none. */
    code_diff_display_mode: stringEnum(['', ...AGENT_DISPLAY_MODES]),
    shell_tool_display_mode: stringEnum(AGENT_DISPLAY_MODES),
    /** Whether the person closed the hint that messages about tasks are off. */
    task_notification_alert_dismissed: Type.Boolean(),
    thinking_display_mode: ThinkingDisplayMode,
  }),
);
export type UserPreferenceSettings = Static<typeof UserPreferenceSettings>;

/** What is absent stays as it is. */
export const UpdateUserPreferenceSettingsRequest = named(
  'UpdateUserPreferenceSettingsRequest',
  Type.Object({
    agent_chat_send_shortcut: Type.Optional(SendShortcut),
    code_diff_display_mode: Type.Optional(stringEnum(AGENT_DISPLAY_MODES)),
    shell_tool_display_mode: Type.Optional(stringEnum(AGENT_DISPLAY_MODES)),
    task_notification_alert_dismissed: Type.Optional(Type.Boolean()),
    thinking_display_mode: Type.Optional(ThinkingDisplayMode),
  }),
);
export type UpdateUserPreferenceSettingsRequest = Static<typeof UpdateUserPreferenceSettingsRequest>;

export const UserLoginType = named(
  'UserLoginType',
  Type.Object({
    login_type: LoginType,
  }),
);
export type UserLoginType = Static<typeof UserLoginType>;

export const OIDCClaimsResponse = named(
  'OIDCClaimsResponse',
  Type.Object({ claims: Type.Record(Type.String(), Type.Unknown()) }),
);
export type OIDCClaimsResponse = Static<typeof OIDCClaimsResponse>;

export const UserParameter = named(
  'UserParameter',
  Type.Object({
    name: Type.String(),
    value: Type.String(),
  }),
);
export type UserParameter = Static<typeof UserParameter>;

export const UserQuietHoursScheduleResponse = named(
  'UserQuietHoursScheduleResponse',
  Type.Object({
    next: Timestamp,
    raw_schedule: Type.String(),
    time: Type.String(),
    timezone: Type.String(),
    user_can_set: Type.Boolean(),
    user_set: Type.Boolean(),
  }),
);
export type UserQuietHoursScheduleResponse = Static<typeof UserQuietHoursScheduleResponse>;

export const ValidateUserPasswordRequest = named(
  'ValidateUserPasswordRequest',
  Type.Object({
    password: Line,
  }),
);
export type ValidateUserPasswordRequest = Static<typeof ValidateUserPasswordRequest>;

export const ValidateUserPasswordResponse = named(
  'ValidateUserPasswordResponse',
  Type.Object({
    details: Type.String(),
    valid: Type.Boolean(),
  }),
);
export type ValidateUserPasswordResponse = Static<typeof ValidateUserPasswordResponse>;
