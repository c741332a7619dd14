import { Type } from 'typebox';
import {
  DeleteExternalAuthByIDResponse,
  ExternalAuth,
  ExternalAuthDevice,
  ExternalAuthDeviceExchange,
  ListUserExternalAuthResponse,
} from '../schema/external-auth.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const params = Type.Object({ externalauth: Type.String() });

export const externalAuthRoutes = {
  'GET /external-auth': route({
    tag: 'Git',
    auth: 'session',
    summary: 'Lists the providers, and the accounts that the caller connected.',
    responses: { 200: ListUserExternalAuthResponse },
  }),
  'GET /external-auth/{externalauth}': route({
    tag: 'Git',
    auth: 'session',
    params,
    responses: { 200: ExternalAuth },
  }),
  'DELETE /external-auth/{externalauth}': route({
    tag: 'Git',
    auth: 'session',
    summary: "Disconnects the caller's account, and asks the provider to end its token.",
    params,
    responses: { 200: DeleteExternalAuthByIDResponse },
  }),
  'GET /external-auth/{externalauth}/device': route({
    tag: 'Git',
    auth: 'session',
    summary: 'Asks the provider for a code that the caller types there.',
    params,
    responses: { 200: ExternalAuthDevice },
  }),
  'POST /external-auth/{externalauth}/device': route({
    tag: 'Git',
    auth: 'session',
    summary: 'Connects the account once the caller has typed the code at the provider.',
    params,
    body: ExternalAuthDeviceExchange,
    unknownKeys: unknownKeys('access'),
    responses: { 204: Nothing },
  }),
} as const;
