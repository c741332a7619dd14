import {
  changeOAuth2App,
  createOAuth2App,
  createOAuth2Secret,
  getOAuth2App,
  listOAuth2Apps,
  listOAuth2Secrets,
  removeOAuth2App,
  removeOAuth2Secret,
} from '../../app/oauth2/apps.ts';
import { getOAuth2Settings, updateOAuth2Settings } from '../../app/oauth2/settings.ts';
import { defineHandlers } from '../exchange.ts';

export const oauth2Handlers = defineHandlers({
  'GET /oauth2-provider/apps': (ctx, { query }) => listOAuth2Apps(ctx, query.user_id),
  'POST /oauth2-provider/apps': (ctx, { body }) => createOAuth2App(ctx, body),
  'GET /oauth2-provider/apps/{app}': (ctx, { params }) => getOAuth2App(ctx, params.app),
  'PUT /oauth2-provider/apps/{app}': (ctx, { params, body }) => changeOAuth2App(ctx, params.app, body),
  'DELETE /oauth2-provider/apps/{app}': (ctx, { params }) => removeOAuth2App(ctx, params.app),
  'GET /oauth2-provider/apps/{app}/secrets': (ctx, { params }) => listOAuth2Secrets(ctx, params.app),
  'POST /oauth2-provider/apps/{app}/secrets': (ctx, { params, http }) => {
    http.reply.header('cache-control', 'no-store');
    return createOAuth2Secret(ctx, params.app);
  },
  'DELETE /oauth2-provider/apps/{app}/secrets/{secretID}': (ctx, { params }) =>
    removeOAuth2Secret(ctx, params.app, params.secretID),
  'GET /oauth2-provider/settings': (ctx) => getOAuth2Settings(ctx),
  'PUT /oauth2-provider/settings': (ctx, { body }) => updateOAuth2Settings(ctx, body),
});
