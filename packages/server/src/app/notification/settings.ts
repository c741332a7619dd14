import { createHash } from 'node:crypto';
import type {
  CustomNotificationRequest,
  NotificationMethodsResponse,
  NotificationPreference,
  NotificationsSettings,
  NotificationTemplate,
  UpdateNotificationTemplateMethod,
  UpdateUserNotificationPreferences,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import {
  type Method,
  preferencesOf,
  setPreferences,
  setTemplateMethod,
  templateMethods,
} from '../../db/queries/notifications.ts';
import { audit } from '../audit-entries/audit.ts';
import { siteSettings } from '../audit-entries/site-settings.ts';
import type { Ctx, Services } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { isUuid } from '../values/ids.ts';
import { time } from '../values/time.ts';
import { notify } from './enqueue.ts';
import { configuredMethods, METHODS } from './methods.ts';
import { TEMPLATES, type Template, templateById } from './templates.ts';

/** Whose words the messages have: the server's, or a person's. Upstream's kinds. */
type TemplateKind = 'system' | 'custom';

const KIND: TemplateKind = 'system';
const settings = siteSettings<NotificationsSettings>({
  key: 'notifications_settings',
  resourceType: 'notifications_settings',
  initial: { notifier_paused: false },
  change: 'notifications',
});

/** Whether messages wait instead of being sent. */
export const isPaused = async (services: Services): Promise<boolean> => (await settings.read(services)).notifier_paused;

export async function getSettings(ctx: Ctx): Promise<NotificationsSettings> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return settings.read(ctx);
}

/** Pauses or resumes. Messages that came meanwhile are sent when notifications resume. */
export async function updateSettings(
  ctx: Ctx,
  { notifier_paused }: NotificationsSettings,
): Promise<NotificationsSettings> {
  await settings.replace(
    ctx,
    { notifier_paused },
    {
      also: async (tx) => {
        if (!notifier_paused) await ctx.events.publish(tx, 'notifications_queued', {});
      },
    },
  );
  return { notifier_paused };
}

function toTemplate(template: Template, method: Method | undefined): NotificationTemplate {
  return {
    id: template.id,
    name: template.name,
    group: template.group,
    title_template: template.title,
    body_template: template.body,
    actions: JSON.stringify(template.actions),
    method: method ?? '',
    kind: template.kind ?? KIND,
    enabled_by_default: template.enabledByDefault ?? true,
  };
}

/**
 * The templates of a kind of which people may choose what they get: all except those that they ask for themselves, such as
 * a test.
 */
export async function listTemplates(ctx: Ctx, kind: TemplateKind): Promise<NotificationTemplate[]> {
  const methods = await templateMethods(ctx.sql);
  return (Object.values(TEMPLATES) as Template[])
    .filter((template) => !template.required && (template.kind ?? KIND) === kind)
    .map((template) => toTemplate(template, methods.get(template.id)));
}

export function dispatchMethods(ctx: Ctx): NotificationMethodsResponse {
  return {
    // the inbox receives every notification anyway
    available: METHODS.filter((method) => method !== 'inbox'),
    default: ctx.config.notificationsMethod,
    configured: configuredMethods(ctx.config),
  };
}

/** Chooses the method of a template for the whole deployment. */
export async function updateTemplateMethod(
  ctx: Ctx,
  id: string,
  { method = '' }: UpdateNotificationTemplateMethod,
): Promise<undefined> {
  const by = authorize(ctx, 'update', { type: 'deployment_config' });
  const template = isUuid(id) ? templateById(id.toLowerCase()) : undefined;
  if (!template) throw new AppError('not_found', 'There is no notification template with this id.');
  if (method !== '' && !METHODS.includes(method as Method)) {
    const detail = `must be one of ${METHODS.join(', ')}`;
    throw new AppError('invalid', `Unknown method ${JSON.stringify(method)}.`, {
      validations: [{ field: 'method', detail }],
    });
  }
  await ctx.sql.begin(async (tx) => {
    const before = (await templateMethods(tx)).get(template.id);
    const after = method === '' ? undefined : (method as Method);
    if (before === after) return;
    await setTemplateMethod(tx, by, template.id, after);
    await audit(ctx, tx, {
      resourceType: 'notification_template',
      resourceId: template.id,
      target: template.name,
      action: 'write',
      before: { method: before },
      after: { method: after },
    });
    await ctx.events.publish(tx, 'object_changed', { kind: 'deployment', id: 'notifications' });
  });
}

export async function getPreferences(ctx: Ctx, name: string): Promise<NotificationPreference[]> {
  const user = await findUser(ctx, 'read_personal', name);
  const rows = await preferencesOf(ctx.sql, user.id);
  return rows.map(({ template_id: id, disabled, updated_at }) => ({ id, disabled, updated_at: time(updated_at) }));
}

/** Switches templates off or on for a person. Templates that are not named stay as they are. */
export async function updatePreferences(
  ctx: Ctx,
  name: string,
  { template_disabled_map: given = {} }: UpdateUserNotificationPreferences,
): Promise<NotificationPreference[]> {
  const user = await findUser(ctx, 'update_personal', name);
  const preferences = Object.entries(given).map(([id, disabled]) => {
    const template = isUuid(id) ? templateById(id.toLowerCase()) : undefined;
    if (!template || template.required) {
      const detail = `${JSON.stringify(id)} is not the id of a template that can be switched off`;
      throw new AppError('invalid', 'Unknown notification template.', {
        validations: [{ field: 'template_disabled_map', detail }],
      });
    }
    return { templateId: template.id, disabled };
  });
  await ctx.sql.begin(async (tx) => {
    await setPreferences(tx, user, preferences);
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: 'write',
      fields: { notifications_disabled: given },
    });
  });
  return getPreferences(ctx, user.id);
}

/** Sends a test to the caller by every configured method, to see that delivery works. */
export async function sendTest(ctx: Ctx): Promise<undefined> {
  authorize(ctx, 'update', { type: 'deployment_config' });
  if (ctx.actor.kind !== 'user') return;
  await notify(ctx, ctx.sql, { template: 'test', to: [ctx.actor.id], labels: {} });
}

const MINUTE_MS = 60_000;

/** Sends a person's message to that person, for example from a script. The same message is sent once a minute. */
export async function sendCustom(
  ctx: Ctx,
  { content: { title, message } }: CustomNotificationRequest,
): Promise<undefined> {
  if (ctx.actor.kind !== 'user') throw new AppError('forbidden', 'Only people can send custom notifications.');
  const { id } = ctx.actor;
  authorize(ctx, 'create', { type: 'inbox_notification', ownerId: id });
  const minute = Math.floor(ctx.clock.now().getTime() / MINUTE_MS);
  const digest = createHash('sha256')
    .update(JSON.stringify([title, message]))
    .digest('hex');
  await notify(ctx, ctx.sql, {
    template: 'custom',
    to: [id],
    labels: { custom_title: title, custom_message: message },
    targets: [id],
    event: `custom ${minute} ${digest}`,
  });
}
