import { type Static, Type } from 'typebox';
import { Address, ImageAddress, NotEmpty, Nullable, named, Timestamp, Uuid } from './kit.ts';

/** The addresses that an app needs. */
export const OAuth2AppEndpoints = named(
  'OAuth2AppEndpoints',
  Type.Object({
    authorization: Type.String(),
    /** Always empty: no endpoint of this server is for devices. */
    device_authorization: Type.String(),
    token: Type.String(),
    token_revoke: Type.String(),
  }),
);

/** An app that signs people in with this server. */
export const OAuth2ProviderApp = named(
  'OAuth2ProviderApp',
  Type.Object({
    callback_url: Type.String(),
    endpoints: OAuth2AppEndpoints,
    icon: Type.String(),
    id: Uuid,
    name: Type.String(),
  }),
);
export type OAuth2ProviderApp = Static<typeof OAuth2ProviderApp>;

const fields = {
  /** Where the browser returns with a code. A `javascript:`, `data:`, `file:` or `ftp:` address is rejected. */
  callback_url: Address,
  icon: Type.Optional(ImageAddress),
  name: NotEmpty,
};

export const PostOAuth2ProviderAppRequest = named('PostOAuth2ProviderAppRequest', Type.Object(fields));
export type PostOAuth2ProviderAppRequest = Static<typeof PostOAuth2ProviderAppRequest>;

export const PutOAuth2ProviderAppRequest = named('PutOAuth2ProviderAppRequest', Type.Object(fields));

export const OAuth2ProviderAppSecret = named(
  'OAuth2ProviderAppSecret',
  Type.Object({
    /** The last six characters. */
    client_secret_truncated: Type.String(),
    id: Uuid,
    last_used_at: Nullable(Timestamp),
  }),
);
export type OAuth2ProviderAppSecret = Static<typeof OAuth2ProviderAppSecret>;

/** A new secret, which no other response contains. */
export const OAuth2ProviderAppSecretFull = named(
  'OAuth2ProviderAppSecretFull',
  Type.Object({ client_secret_full: Type.String(), id: Uuid }),
);
export type OAuth2ProviderAppSecretFull = Static<typeof OAuth2ProviderAppSecretFull>;

export const OAuth2ProviderSettings = named(
  'OAuth2ProviderSettings',
  Type.Object({
    /** Whether apps may register themselves (RFC 7591). Absent in a request: unchanged. */
    dynamic_client_registration_enabled: Type.Optional(Type.Boolean()),
  }),
);
export type OAuth2ProviderSettings = Static<typeof OAuth2ProviderSettings>;
