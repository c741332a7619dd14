import { Type } from 'typebox';
import { Line, Uuid } from '../schema/kit.ts';
import {
  ChangePasswordWithOneTimePasscodeRequest,
  CustomNotificationRequest,
  DeleteWebpushSubscription,
  GetInboxNotificationResponse,
  ListInboxNotificationsResponse,
  NotificationMethodsResponse,
  NotificationPreference,
  NotificationsSettings,
  NotificationTemplate,
  RequestOneTimePasscodeRequest,
  UpdateInboxNotificationReadStatusRequest,
  UpdateInboxNotificationReadStatusResponse,
  UpdateNotificationTemplateMethod,
  UpdateUserNotificationPreferences,
  WebpushSubscription,
} from '../schema/notifications.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const TAG = { tag: 'Notifications', auth: 'session' } as const;
const inboxFilter = {
  /** Ids, separated by commas. */
  targets: Type.Optional(Line),
  templates: Type.Optional(Line),
  /** `all`, `read` or `unread`. */
  read_status: Type.Optional(Line),
};
const user = Type.Object({ user: Type.String() });

export const notificationsRoutes = {
  'GET /notifications/settings': route({ ...TAG, responses: { 200: NotificationsSettings } }),
  'PUT /notifications/settings': route({
    ...TAG,
    body: NotificationsSettings,
    unknownKeys: unknownKeys('display'),
    responses: { 200: NotificationsSettings },
  }),
  'GET /notifications/templates/system': route({ ...TAG, responses: { 200: Type.Array(NotificationTemplate) } }),
  // of upstream's newer dashboard, whose pages of notifications wait for it
  'GET /notifications/templates/custom': route({ ...TAG, responses: { 200: Type.Array(NotificationTemplate) } }),
  'PUT /notifications/templates/{notification_template}/method': route({
    tag: 'Enterprise',
    auth: 'session',
    params: Type.Object({ notification_template: Type.String() }),
    body: UpdateNotificationTemplateMethod,
    unknownKeys: unknownKeys('display'),
    responses: { 200: Nothing },
  }),
  'GET /notifications/dispatch-methods': route({ ...TAG, responses: { 200: NotificationMethodsResponse } }),
  'POST /notifications/test': route({ ...TAG, responses: { 204: Nothing } }),
  // of upstream since 2.27
  'POST /notifications/custom': route({
    ...TAG,
    body: CustomNotificationRequest,
    unknownKeys: unknownKeys('display'),
    responses: { 204: Nothing },
  }),
  'GET /notifications/inbox': route({
    ...TAG,
    query: Type.Object({ ...inboxFilter, starting_before: Type.Optional(Uuid) }),
    responses: { 200: ListInboxNotificationsResponse },
  }),
  'GET /notifications/inbox/watch': route({
    ...TAG,
    stream: 'websocket',
    query: Type.Object({ ...inboxFilter, format: Type.Optional(Line) }),
    responses: { 200: GetInboxNotificationResponse },
  }),
  'PUT /notifications/inbox/mark-all-as-read': route({ ...TAG, responses: { 204: Nothing } }),
  'PUT /notifications/inbox/{id}/read-status': route({
    ...TAG,
    params: Type.Object({ id: Type.String() }),
    body: UpdateInboxNotificationReadStatusRequest,
    unknownKeys: unknownKeys('display'),
    responses: { 200: UpdateInboxNotificationReadStatusResponse },
  }),
  'GET /users/{user}/notifications/preferences': route({
    ...TAG,
    params: user,
    responses: { 200: Type.Array(NotificationPreference) },
  }),
  'PUT /users/{user}/notifications/preferences': route({
    ...TAG,
    params: user,
    body: UpdateUserNotificationPreferences,
    unknownKeys: unknownKeys('display'),
    responses: { 200: Type.Array(NotificationPreference) },
  }),
  'POST /users/otp/request': route({
    tag: 'Authorization',
    auth: 'none',
    body: RequestOneTimePasscodeRequest,
    unknownKeys: unknownKeys('display'),
    responses: { 204: Nothing },
  }),
  'POST /users/otp/change-password': route({
    tag: 'Authorization',
    auth: 'none',
    body: ChangePasswordWithOneTimePasscodeRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 204: Nothing },
  }),
  'POST /users/{user}/webpush/subscription': route({
    ...TAG,
    params: user,
    body: WebpushSubscription,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
  'DELETE /users/{user}/webpush/subscription': route({
    ...TAG,
    params: user,
    body: DeleteWebpushSubscription,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
  'POST /users/{user}/webpush/test': route({ ...TAG, params: user, responses: { 204: Nothing } }),
} as const;
