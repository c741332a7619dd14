import {
  disconnectAccount,
  finishDeviceFlow,
  getAccount,
  listAccounts,
  startDeviceFlow,
} from '../../app/external-auth/accounts.ts';
import { defineHandlers } from '../exchange.ts';

export const externalAuthHandlers = defineHandlers({
  'GET /external-auth': (ctx) => listAccounts(ctx),
  'GET /external-auth/{externalauth}': (ctx, { params }) => getAccount(ctx, params.externalauth),
  'DELETE /external-auth/{externalauth}': (ctx, { params }) => disconnectAccount(ctx, params.externalauth),
  'GET /external-auth/{externalauth}/device': (ctx, { params }) => startDeviceFlow(ctx, params.externalauth),
  'POST /external-auth/{externalauth}/device': (ctx, { params, body }) =>
    finishDeviceFlow(ctx, params.externalauth, body.device_code),
});
