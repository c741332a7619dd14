import { createKey, deleteKey, keyOfHeaders, listKeyDaemons, listKeys } from '../../app/provisioner/keys.ts';
import { defineHandlers } from '../exchange.ts';

export const provisionerKeyHandlers = defineHandlers({
  'GET /organizations/{organization}/provisionerkeys': (ctx, { params }) => listKeys(ctx, params.organization),
  'POST /organizations/{organization}/provisionerkeys': (ctx, { params, body }) =>
    createKey(ctx, params.organization, body),
  'GET /organizations/{organization}/provisionerkeys/daemons': (ctx, { params }) =>
    listKeyDaemons(ctx, params.organization),
  'DELETE /organizations/{organization}/provisionerkeys/{provisionerkey}': (ctx, { params }) =>
    deleteKey(ctx, params.organization, params.provisionerkey),
  // the path is ignored: upstream's daemons put the secret there too
  'GET /provisionerkeys/{provisionerkey}': (ctx, { http }) => keyOfHeaders(ctx, http.request.headers),
});
