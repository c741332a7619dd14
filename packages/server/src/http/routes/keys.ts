import {
  createKey,
  createToken,
  deleteKey,
  getKey,
  getTokenByName,
  listSessions,
  listTokens,
  revokeSessions,
  tokenConfig,
} from '../../app/user/tokens.ts';
import { defineHandlers } from '../exchange.ts';

export const keyHandlers = defineHandlers({
  'POST /users/{user}/keys': (ctx, { params }) => createKey(ctx, params.user),
  'GET /users/{user}/keys/tokens': (ctx, { params, query }) => listTokens(ctx, params.user, query.include_all === true),
  'POST /users/{user}/keys/tokens': (ctx, { params, body }) => createToken(ctx, params.user, body),
  'GET /users/{user}/keys/tokens/tokenconfig': (ctx, { params }) => tokenConfig(ctx, params.user),
  'GET /users/{user}/keys/tokens/{keyname}': (ctx, { params }) => getTokenByName(ctx, params.user, params.keyname),
  'GET /users/{user}/sessions': (ctx, { params }) => listSessions(ctx, params.user),
  'DELETE /users/{user}/sessions': (ctx, { params }) => revokeSessions(ctx, params.user),
  'GET /users/{user}/keys/{keyid}': (ctx, { params }) => getKey(ctx, params.user, params.keyid),
  'DELETE /users/{user}/keys/{keyid}': (ctx, { params }) => deleteKey(ctx, params.user, params.keyid),
});
