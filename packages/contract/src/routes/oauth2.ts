import { Type } from 'typebox';
import { Line } from '../schema/kit.ts';
import {
  OAuth2ProviderApp,
  OAuth2ProviderAppSecret,
  OAuth2ProviderAppSecretFull,
  OAuth2ProviderSettings,
  PostOAuth2ProviderAppRequest,
  PutOAuth2ProviderAppRequest,
} from '../schema/oauth2.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const TAG = { tag: 'Enterprise', auth: 'session' } as const;
const OneApp = Type.Object({ app: Type.String() });

/** The routes of the protocol itself are outside of the API: server/src/http/oauth2. */
export const oauth2Routes = {
  'GET /oauth2-provider/apps': route({
    ...TAG,
    query: Type.Object({
      /** Only the apps that this person lets in. */
      user_id: Type.Optional(Line),
    }),
    responses: { 200: Type.Array(OAuth2ProviderApp) },
  }),
  'POST /oauth2-provider/apps': route({
    ...TAG,
    body: PostOAuth2ProviderAppRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: OAuth2ProviderApp },
  }),
  'GET /oauth2-provider/apps/{app}': route({ ...TAG, params: OneApp, responses: { 200: OAuth2ProviderApp } }),
  'PUT /oauth2-provider/apps/{app}': route({
    ...TAG,
    params: OneApp,
    body: PutOAuth2ProviderAppRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: OAuth2ProviderApp },
  }),
  'DELETE /oauth2-provider/apps/{app}': route({ ...TAG, params: OneApp, responses: { 204: Nothing } }),
  'GET /oauth2-provider/apps/{app}/secrets': route({
    ...TAG,
    params: OneApp,
    responses: { 200: Type.Array(OAuth2ProviderAppSecret) },
  }),
  'POST /oauth2-provider/apps/{app}/secrets': route({
    ...TAG,
    params: OneApp,
    responses: { 201: OAuth2ProviderAppSecretFull },
  }),
  'DELETE /oauth2-provider/apps/{app}/secrets/{secretID}': route({
    ...TAG,
    params: Type.Object({ app: Type.String(), secretID: Type.String() }),
    responses: { 204: Nothing },
  }),
  // of upstream since August 2026
  'GET /oauth2-provider/settings': route({ ...TAG, responses: { 200: OAuth2ProviderSettings } }),
  'PUT /oauth2-provider/settings': route({
    ...TAG,
    body: OAuth2ProviderSettings,
    unknownKeys: unknownKeys('access'),
    responses: { 200: OAuth2ProviderSettings },
  }),
} as const;
