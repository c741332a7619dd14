import {
  createSecret,
  deleteSecret,
  getSecret,
  importSecrets,
  listSecrets,
  updateSecret,
} from '../../app/user/secrets.ts';
import { defineHandlers } from '../exchange.ts';

export const userSecretHandlers = defineHandlers({
  'GET /users/{user}/secrets': (ctx, { params }) => listSecrets(ctx, params.user),
  'POST /users/{user}/secrets': (ctx, { params, body }) => createSecret(ctx, params.user, body),
  'POST /users/{user}/secrets/batch': (ctx, { params, body }) => importSecrets(ctx, params.user, body),
  'GET /users/{user}/secrets/{name}': (ctx, { params }) => getSecret(ctx, params.user, params.name),
  'PATCH /users/{user}/secrets/{name}': (ctx, { params, body }) => updateSecret(ctx, params.user, params.name, body),
  'DELETE /users/{user}/secrets/{name}': (ctx, { params }) => deleteSecret(ctx, params.user, params.name),
});
