import { Type } from 'typebox';
import {
  CreateUserSecretRequest,
  ImportUserSecretsRequest,
  UpdateUserSecretRequest,
  UserSecret,
} from '../schema/user-secrets.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const OfPerson = Type.Object({ user: Type.String() });
const OneSecret = Type.Object({ user: Type.String(), name: Type.String() });

export const userSecretsRoutes = {
  'GET /users/{user}/secrets': route({
    tag: 'Secrets',
    auth: 'session',
    params: OfPerson,
    responses: { 200: Type.Array(UserSecret) },
  }),
  'POST /users/{user}/secrets': route({
    tag: 'Secrets',
    auth: 'session',
    params: OfPerson,
    body: CreateUserSecretRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: UserSecret },
  }),
  'POST /users/{user}/secrets/batch': route({
    tag: 'Secrets',
    auth: 'session',
    summary: 'Creates the secrets of a file, or none of them.',
    params: OfPerson,
    body: ImportUserSecretsRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: Type.Array(UserSecret) },
  }),
  'GET /users/{user}/secrets/{name}': route({
    tag: 'Secrets',
    auth: 'session',
    params: OneSecret,
    responses: { 200: UserSecret },
  }),
  'PATCH /users/{user}/secrets/{name}': route({
    tag: 'Secrets',
    auth: 'session',
    params: OneSecret,
    body: UpdateUserSecretRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: UserSecret },
  }),
  'DELETE /users/{user}/secrets/{name}': route({
    tag: 'Secrets',
    auth: 'session',
    params: OneSecret,
    responses: { 204: Nothing },
  }),
} as const;
