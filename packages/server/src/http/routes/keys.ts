import {
  createKey,
  createToken,
  deleteKey,
  expireKey,
  getKey,
  getTokenByName,
  listScopes,
  listSessions,
  listTokens,
  revokeSessions,
  tokenConfig,
} from '../../app/user/tokens.ts';
import { defineHandlers } from '../exchange.ts';

export const keyHandlers = defineHandlers({
  'POST /users/{user}/keys': (ctx, { params }) => createKey(ctx, params.user),
  'GET /users/{user}/keys/tokens': (ctx, { params, query }) => listTokens(ctx, params.user, query),
  'POST /users/{user}/keys/tokens': (ctx, { params, body }) => createToken(ctx, params.user, body),
  'GET /users/{user}/keys/tokens/tokenconfig': (ctx, { params }) => tokenConfig(ctx, params.user),
  'GET /users/{user}/keys/tokens/{keyname}': (ctx, { params }) => getTokenByName(ctx, params.user, params.keyname),
  'GET /users/{user}/sessions': (ctx, { params }) => listSessions(ctx, params.user),
  'DELETE /users/{user}/sessions': (ctx, { params }) => revokeSessions(ctx, params.user),
  'GET /users/{user}/keys/{keyid}': (ctx, { params }) => getKey(ctx, params.user, params.keyid),
  'PUT /users/{user}/keys/{keyid}/expire': (ctx, { params }) => expireKey(ctx, params.user, params.keyid),
  'GET /auth/scopes': () => listScopes(),
  'DELETE /users/{user}/keys/{keyid}': (ctx, { params }) => deleteKey(ctx, params.user, params.keyid),
});
