import { inboxSource, listInbox, markAllRead, setReadStatus } from '../../app/notification/inbox.ts';
import {
  dispatchMethods,
  getPreferences,
  getSettings,
  listTemplates,
  sendCustom,
  sendTest,
  updatePreferences,
  updateSettings,
  updateTemplateMethod,
} from '../../app/notification/settings.ts';
import { sendTestPush, subscribe, unsubscribe } from '../../app/notification/webpush.ts';
import { defineHandlers } from '../exchange.ts';
import { followAsTexts } from '../follow.ts';

export const notificationHandlers = defineHandlers({
  'GET /notifications/settings': (ctx) => getSettings(ctx),
  'PUT /notifications/settings': (ctx, { body }) => updateSettings(ctx, body),
  'GET /notifications/templates/system': (ctx) => listTemplates(ctx, 'system'),
  'GET /notifications/templates/custom': (ctx) => listTemplates(ctx, 'custom'),
  'PUT /notifications/templates/{notification_template}/method': (ctx, { params, body }) =>
    updateTemplateMethod(ctx, params.notification_template, body),
  'GET /notifications/dispatch-methods': (ctx) => dispatchMethods(ctx),
  'POST /notifications/test': (ctx) => sendTest(ctx),
  'POST /notifications/custom': (ctx, { body }) => sendCustom(ctx, body),
  'GET /notifications/inbox': (ctx, { query }) => listInbox(ctx, query),
  'GET /notifications/inbox/watch': async (ctx, { query, http }) => {
    const source = inboxSource(ctx, query);
    void followAsTexts(ctx, http.upgrade(), source);
  },
  'PUT /notifications/inbox/mark-all-as-read': (ctx) => markAllRead(ctx),
  'PUT /notifications/inbox/{id}/read-status': (ctx, { params, body }) => setReadStatus(ctx, params.id, body.is_read),
  'GET /users/{user}/notifications/preferences': (ctx, { params }) => getPreferences(ctx, params.user),
  'PUT /users/{user}/notifications/preferences': (ctx, { params, body }) => updatePreferences(ctx, params.user, body),
  'POST /users/{user}/webpush/subscription': (ctx, { params, body }) => subscribe(ctx, params.user, body),
  'DELETE /users/{user}/webpush/subscription': (ctx, { params, body }) => unsubscribe(ctx, params.user, body.endpoint),
  'POST /users/{user}/webpush/test': (ctx, { params }) => sendTestPush(ctx, params.user),
});
