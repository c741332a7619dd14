import { type Static, Type } from 'typebox';
import { Credential, documentedAlso, named, Timestamp } from './kit.ts';

/** A code that a person types at a provider, on another device. */
export const ExternalAuthDevice = named(
  'ExternalAuthDevice',
  Type.Object({
    device_code: Type.String(),
    expires_in: Type.Integer(),
    interval: Type.Integer(),
    user_code: Type.String(),
    verification_uri: Type.String(),
  }),
);
export type ExternalAuthDevice = Static<typeof ExternalAuthDevice>;

export const ExternalAuthDeviceExchange = named('ExternalAuthDeviceExchange', Type.Object({ device_code: Credential }));
export type ExternalAuthDeviceExchange = Static<typeof ExternalAuthDeviceExchange>;

/** An account at a provider. */
export const ExternalAuthUser = named(
  'ExternalAuthUser',
  Type.Object({
    avatar_url: Type.String(),
    id: Type.Integer(),
    login: Type.String(),
    name: Type.String(),
    profile_url: Type.String(),
  }),
);
export type ExternalAuthUser = Static<typeof ExternalAuthUser>;

export const ExternalAuthAppInstallation = named(
  'ExternalAuthAppInstallation',
  Type.Object({ account: ExternalAuthUser, configure_url: Type.String(), id: Type.Integer() }),
);
export type ExternalAuthAppInstallation = Static<typeof ExternalAuthAppInstallation>;

/** A provider, and the caller's account there. */
export const ExternalAuth = named(
  'ExternalAuth',
  Type.Object({
    app_install_url: Type.String(),
    app_installable: Type.Boolean(),
    authenticated: Type.Boolean(),
    device: Type.Boolean(),
    display_name: Type.String(),
    installations: Type.Array(ExternalAuthAppInstallation),
    supports_revocation: Type.Boolean(),
    user: Type.Union([ExternalAuthUser, Type.Null()]),
    /** Why a connected account does not work. */
    validate_error: Type.Optional(Type.String()),
  }),
);
export type ExternalAuth = Static<typeof ExternalAuth>;

export const ExternalAuthLink = named(
  'ExternalAuthLink',
  Type.Object({
    authenticated: Type.Boolean(),
    created_at: Timestamp,
    expires: Timestamp,
    has_refresh_token: Type.Boolean(),
    provider_id: Type.String(),
    updated_at: Timestamp,
    validate_error: Type.String(),
  }),
);
export type ExternalAuthLink = Static<typeof ExternalAuthLink>;

export const ExternalAuthLinkProvider = named(
  'ExternalAuthLinkProvider',
  Type.Object({
    allow_refresh: Type.Boolean(),
    allow_validate: Type.Boolean(),
    device: Type.Boolean(),
    display_icon: Type.String(),
    display_name: Type.String(),
    id: Type.String(),
    supports_revocation: Type.Boolean(),
    type: Type.String(),
  }),
);
export type ExternalAuthLinkProvider = Static<typeof ExternalAuthLinkProvider>;

/** Upstream's API document has one link here. Its programs send and read this. */
export const ListUserExternalAuthResponse = named(
  'ListUserExternalAuthResponse',
  documentedAlso(
    Type.Object({ links: Type.Array(ExternalAuthLink), providers: Type.Array(ExternalAuthLinkProvider) }),
    ExternalAuthLink,
  ),
);
export type ListUserExternalAuthResponse = Static<typeof ListUserExternalAuthResponse>;

export const DeleteExternalAuthByIDResponse = named(
  'DeleteExternalAuthByIDResponse',
  Type.Object({
    token_revocation_error: Type.Optional(Type.String()),
    /** Whether the provider ended the token. */
    token_revoked: Type.Boolean(),
  }),
);
export type DeleteExternalAuthByIDResponse = Static<typeof DeleteExternalAuthByIDResponse>;
