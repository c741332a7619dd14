import { systemTask } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import { insertMessages, templateMethods } from '../../db/queries/notifications.ts';
import { type Services, systemContext } from '../context/context.ts';
import { methodsFor } from './methods.ts';
import { TEMPLATES, type Template, type TemplateName } from './templates.ts';

export interface Notification {
  template: TemplateName;
  to: readonly string[];
  labels: Readonly<Record<string, string>>;
  /** The ids of the objects that it is about. */
  targets?: readonly string[];
  /** Names what happened, if it can be reported more than once: a person gets it once. */
  event?: string;
  /** Where a mail goes. Absent: to the person's address at the time of sending. */
  address?: string;
}

/** The longest value of a label, in characters. */
const LONGEST_LABEL = 2_000;

/** Notifies people, in the transaction of the event. A background task sends the messages after its commit. */
export async function notify(
  services: Services,
  db: Db,
  notification: Notification,
  /** The methods that administrators chose, if the caller knows them. */
  chosen?: Awaited<ReturnType<typeof templateMethods>>,
): Promise<void> {
  const { to, targets = [], event = crypto.randomUUID() } = notification;
  const template: Template = TEMPLATES[notification.template];
  if (to.length === 0) return;
  const methods = methodsFor(services.config, template, (chosen ?? (await templateMethods(db))).get(template.id));
  if (methods.length === 0) return;
  const labels = Object.fromEntries(
    Object.entries(notification.labels).map(([name, value]) => [
      name,
      value.slice(0, LONGEST_LABEL).replaceAll('\0', ''),
    ]),
  );
  const added = await insertMessages(db, systemTask(systemContext(services, 'notifications')), {
    templateId: template.id,
    userIds: [...new Set(to)],
    methods,
    labels,
    targets,
    event,
    enabledByDefault: template.enabledByDefault ?? true,
    required: template.required ?? false,
    address: notification.address,
  });
  if (added > 0) await services.events.publish(db, 'notifications_queued', {});
}
