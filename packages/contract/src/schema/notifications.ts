import { type Static, Type } from 'typebox';
import { Line, Nullable, named, Timestamp, Uuid } from './kit.ts';

export const NotificationsSettings = named(
  'NotificationsSettings',
  Type.Object({
    /** Whether messages wait instead of being sent. */
    notifier_paused: Type.Boolean(),
  }),
);
export type NotificationsSettings = Static<typeof NotificationsSettings>;

export const CustomNotificationRequest = named(
  'CustomNotificationRequest',
  Type.Object({
    content: Type.Object({
      title: Type.String({ maxLength: 120, pattern: '\\S' }),
      message: Type.String({ maxLength: 2_000, pattern: '\\S' }),
    }),
  }),
);
export type CustomNotificationRequest = Static<typeof CustomNotificationRequest>;

export const NotificationTemplate = named(
  'NotificationTemplate',
  Type.Object({
    /** JSON: a list of labels and URLs. */
    actions: Type.String(),
    body_template: Type.String(),
    enabled_by_default: Type.Boolean(),
    group: Type.String(),
    id: Uuid,
    kind: Type.String(),
    /** Empty: the deployment's default. */
    method: Type.String(),
    name: Type.String(),
    title_template: Type.String(),
  }),
);
export type NotificationTemplate = Static<typeof NotificationTemplate>;

export const NotificationMethodsResponse = named(
  'NotificationMethodsResponse',
  Type.Object({
    available: Type.Array(Type.String()),
    default: Type.String(),
    /** The methods that this server is configured to use. */
    configured: Type.Array(Type.String()),
  }),
);
export type NotificationMethodsResponse = Static<typeof NotificationMethodsResponse>;

export const UpdateNotificationTemplateMethod = named(
  'UpdateNotificationTemplateMethod',
  Type.Object({
    /** `smtp`, `webhook` or `inbox`. Empty or absent: the deployment's default. */
    method: Type.Optional(Line),
  }),
);
export type UpdateNotificationTemplateMethod = Static<typeof UpdateNotificationTemplateMethod>;

export const NotificationPreference = named(
  'NotificationPreference',
  Type.Object({
    disabled: Type.Boolean(),
    /** Of the template. */
    id: Uuid,
    updated_at: Timestamp,
  }),
);
export type NotificationPreference = Static<typeof NotificationPreference>;

export const UpdateUserNotificationPreferences = named(
  'UpdateUserNotificationPreferences',
  Type.Object({
    template_disabled_map: Type.Optional(Type.Record(Line, Type.Boolean(), { maxProperties: 100 })),
  }),
);
export type UpdateUserNotificationPreferences = Static<typeof UpdateUserNotificationPreferences>;

export const InboxNotificationAction = named(
  'InboxNotificationAction',
  Type.Object({ label: Type.String(), url: Type.String() }),
);
export type InboxNotificationAction = Static<typeof InboxNotificationAction>;

export const InboxNotification = named(
  'InboxNotification',
  Type.Object({
    actions: Type.Array(InboxNotificationAction),
    content: Type.String(),
    created_at: Timestamp,
    icon: Type.String(),
    id: Uuid,
    read_at: Nullable(Type.String()),
    targets: Type.Array(Uuid),
    template_id: Uuid,
    title: Type.String(),
    user_id: Uuid,
  }),
);
export type InboxNotification = Static<typeof InboxNotification>;

export const ListInboxNotificationsResponse = named(
  'ListInboxNotificationsResponse',
  Type.Object({ notifications: Type.Array(InboxNotification), unread_count: Type.Integer() }),
);
export type ListInboxNotificationsResponse = Static<typeof ListInboxNotificationsResponse>;

export const GetInboxNotificationResponse = named(
  'GetInboxNotificationResponse',
  Type.Object({ notification: InboxNotification, unread_count: Type.Integer() }),
);
export type GetInboxNotificationResponse = Static<typeof GetInboxNotificationResponse>;

export const UpdateInboxNotificationReadStatusRequest = named(
  'UpdateInboxNotificationReadStatusRequest',
  Type.Object({ is_read: Type.Boolean() }),
);
export type UpdateInboxNotificationReadStatusRequest = Static<typeof UpdateInboxNotificationReadStatusRequest>;

/** Also upstream's answer of the same name, in place of its documented one: its programs read these fields. */
export const UpdateInboxNotificationReadStatusResponse = named(
  'UpdateInboxNotificationReadStatusResponse',
  Type.Object({ message: Type.String(), notification: InboxNotification, unread_count: Type.Integer() }),
);
export type UpdateInboxNotificationReadStatusResponse = Static<typeof UpdateInboxNotificationReadStatusResponse>;

export const RequestOneTimePasscodeRequest = named('RequestOneTimePasscodeRequest', Type.Object({ email: Line }));
export type RequestOneTimePasscodeRequest = Static<typeof RequestOneTimePasscodeRequest>;

export const ChangePasswordWithOneTimePasscodeRequest = named(
  'ChangePasswordWithOneTimePasscodeRequest',
  Type.Object({ email: Line, one_time_passcode: Line, password: Line }),
);
export type ChangePasswordWithOneTimePasscodeRequest = Static<typeof ChangePasswordWithOneTimePasscodeRequest>;

export const WebpushSubscription = named(
  'WebpushSubscription',
  Type.Object({
    auth_key: Type.String({ maxLength: 64 }),
    endpoint: Type.String({ maxLength: 2048 }),
    p256dh_key: Type.String({ maxLength: 256 }),
  }),
);
export type WebpushSubscription = Static<typeof WebpushSubscription>;

export const DeleteWebpushSubscription = named(
  'DeleteWebpushSubscription',
  Type.Object({ endpoint: Type.String({ maxLength: 2048 }) }),
);
export type DeleteWebpushSubscription = Static<typeof DeleteWebpushSubscription>;
