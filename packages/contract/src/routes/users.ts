import { Type } from 'typebox';
import { Response } from '../schema/common.ts';
import { ExternalAuthDevice } from '../schema/external-auth.ts';
import { Address, Credential, documentedAlso, Line, NotEmpty, Paragraph, Whole } from '../schema/kit.ts';
import {
  APIKey,
  APIKeyWithOwner,
  AssignableRoles,
  AuthMethods,
  ConvertLoginRequest,
  CreateFirstUserRequest,
  CreateFirstUserResponse,
  CreateTokenRequest,
  CreateUserRequestWithOrgs,
  GenerateAPIKeyResponse,
  GetUsersResponse,
  GitSSHKey,
  LoginWithPasswordRequest,
  LoginWithPasswordResponse,
  OAuth2DeviceFlowCallbackResponse,
  OAuthConversionResponse,
  Organization,
  TokenConfig,
  UpdateRoles,
  UpdateUserAppearanceSettingsRequest,
  UpdateUserPasswordRequest,
  UpdateUserProfileRequest,
  UpdateUserQuietHoursScheduleRequest,
  User,
  UserAppearanceSettings,
  UserLoginType,
  UserParameter,
  UserQuietHoursScheduleResponse,
  UserRoles,
  UserSession,
  ValidateUserPasswordRequest,
  ValidateUserPasswordResponse,
} from '../schema/users.ts';
import { Nothing, route } from './kit.ts';

// Upstream's API document has an array of these. Its programs send and read a single one.
const quietHours = documentedAlso(
  Type.Object(UserQuietHoursScheduleResponse.properties),
  Type.Array(UserQuietHoursScheduleResponse),
);

/** What a provider adds to the address, and where to go after the sign-in. */
const SignInCallback = Type.Object({
  code: Type.Optional(Credential),
  state: Type.Optional(Line),
  error: Type.Optional(Line),
  error_description: Type.Optional(Paragraph),
  redirect: Type.Optional(Address),
  /** The state of a conversion, from POST /users/{user}/convert-login. */
  oidc_merge_state: Type.Optional(Line),
});

export const usersRoutes = {
  'GET /users/first': route({
    tag: 'Users',
    auth: 'none',
    responses: { 200: Response },
  }),
  'POST /users/first': route({
    tag: 'Users',
    auth: 'none',
    body: CreateFirstUserRequest,
    responses: { 201: CreateFirstUserResponse },
  }),
  'POST /users/login': route({
    tag: 'Authorization',
    auth: 'none',
    body: LoginWithPasswordRequest,
    responses: { 201: LoginWithPasswordResponse },
  }),
  'POST /users/logout': route({
    tag: 'Users',
    auth: 'session',
    responses: { 200: Response },
  }),
  'GET /users/authmethods': route({
    tag: 'Users',
    auth: 'none',
    responses: { 200: AuthMethods },
  }),
  'GET /users/oauth2/github/callback': route({
    tag: 'Users',
    auth: 'none',
    summary:
      'Starts a sign-in with GitHub, and completes it. With a device flow, answers once the person typed the code.',
    query: SignInCallback,
    responses: { 200: OAuth2DeviceFlowCallbackResponse, 307: Nothing },
  }),
  'GET /users/oauth2/github/device': route({
    tag: 'Users',
    auth: 'none',
    summary: 'Asks GitHub for a code that a person types there to sign in.',
    responses: { 200: ExternalAuthDevice },
  }),
  'GET /users/oidc/callback': route({
    tag: 'Users',
    // the browser goes to the provider without a session, and comes back with proof of the identity
    auth: 'none',
    summary: 'Starts a sign-in with OpenID Connect, and completes it when the provider sends the browser back.',
    query: SignInCallback,
    responses: { 307: Nothing },
  }),
  'POST /users/validate-password': route({
    tag: 'Authorization',
    auth: 'none',
    body: ValidateUserPasswordRequest,
    responses: { 200: ValidateUserPasswordResponse },
  }),
  'GET /users': route({
    tag: 'Users',
    auth: 'session',
    query: Type.Object({
      q: Type.Optional(Type.String()),
      after_id: Type.Optional(NotEmpty),
      limit: Type.Optional(Whole),
      offset: Type.Optional(Whole),
    }),
    responses: { 200: GetUsersResponse },
  }),
  'POST /users': route({
    tag: 'Users',
    auth: 'session',
    body: CreateUserRequestWithOrgs,
    responses: { 201: User },
  }),
  'GET /users/roles': route({
    tag: 'Members',
    auth: 'session',
    responses: { 200: Type.Array(AssignableRoles) },
  }),
  'GET /users/{user}': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: User },
  }),
  'DELETE /users/{user}': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: Nothing },
  }),
  'GET /users/{user}/appearance': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: UserAppearanceSettings },
  }),
  'PUT /users/{user}/appearance': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: UpdateUserAppearanceSettingsRequest,
    responses: { 200: UserAppearanceSettings },
  }),
  'GET /users/{user}/autofill-parameters': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    query: Type.Object({ template_id: Type.Optional(Type.String()) }),
    responses: { 200: Type.Array(UserParameter) },
  }),
  'GET /users/{user}/gitsshkey': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: GitSSHKey },
  }),
  'PUT /users/{user}/gitsshkey': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: GitSSHKey },
  }),
  'POST /users/{user}/keys': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 201: GenerateAPIKeyResponse },
  }),
  'GET /users/{user}/keys/tokens': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    query: Type.Object({ include_all: Type.Optional(Type.Boolean()) }),
    responses: { 200: Type.Array(APIKeyWithOwner) },
  }),
  'POST /users/{user}/keys/tokens': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: CreateTokenRequest,
    responses: { 201: GenerateAPIKeyResponse },
  }),
  'GET /users/{user}/keys/tokens/tokenconfig': route({
    tag: 'General',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: TokenConfig },
  }),
  'GET /users/{user}/keys/tokens/{keyname}': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String(), keyname: Type.String() }),
    responses: { 200: APIKey },
  }),
  'GET /users/{user}/keys/{keyid}': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String(), keyid: Type.String() }),
    responses: { 200: APIKey },
  }),
  'DELETE /users/{user}/keys/{keyid}': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String(), keyid: Type.String() }),
    responses: { 204: Nothing },
  }),
  'POST /users/{user}/convert-login': route({
    tag: 'Authorization',
    auth: 'session',
    summary: 'Changes how a person signs in. A change to a provider of their own completes with a sign-in there.',
    params: Type.Object({ user: Type.String() }),
    body: ConvertLoginRequest,
    responses: { 201: OAuthConversionResponse },
  }),
  'GET /users/{user}/login-type': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: UserLoginType },
  }),
  'GET /users/{user}/sessions': route({
    tag: 'Users',
    auth: 'session',
    summary:
      'Lists the browsers and programs in which a person is signed in. DELETE /users/{user}/keys/{keyid} ends one.',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: Type.Array(UserSession) },
  }),
  'DELETE /users/{user}/sessions': route({
    tag: 'Users',
    auth: 'session',
    summary: "Ends a person's sessions, except the one that makes the request.",
    params: Type.Object({ user: Type.String() }),
    responses: { 204: Nothing },
  }),
  'GET /users/{user}/organizations': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: Type.Array(Organization) },
  }),
  'GET /users/{user}/organizations/{organizationname}': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String(), organizationname: Type.String() }),
    responses: { 200: Organization },
  }),
  'PUT /users/{user}/password': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: UpdateUserPasswordRequest,
    responses: { 204: Nothing },
  }),
  'PUT /users/{user}/profile': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: UpdateUserProfileRequest,
    responses: { 200: User },
  }),
  'GET /users/{user}/roles': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: UserRoles },
  }),
  'PUT /users/{user}/roles': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: UpdateRoles,
    responses: { 200: User },
  }),
  'PUT /users/{user}/status/activate': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: User },
  }),
  'PUT /users/{user}/status/suspend': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: User },
  }),
  'GET /users/{user}/quiet-hours': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: quietHours },
  }),
  'PUT /users/{user}/quiet-hours': route({
    tag: 'Users',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: UpdateUserQuietHoursScheduleRequest,
    responses: { 200: quietHours },
  }),
} as const;
