import type { Db } from '../../db/connect.ts';
import { templateAdmins, workspaceOwnersOf } from '../../db/queries/notifications.ts';
import type { TemplateRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { initiatorOf } from './accounts.ts';
import { notify } from './enqueue.ts';

type Subject = Pick<TemplateRow, 'id' | 'name' | 'display_name' | 'organization_id' | 'organization_name'>;

const nameOf = ({ display_name, name }: Subject) => display_name || name;

/** Notifies the other template admins that a template was deleted. */
export async function notifyTemplateDeleted(ctx: Ctx, db: Db, template: Subject): Promise<void> {
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  await notify(ctx, db, {
    template: 'templateDeleted',
    to: (await templateAdmins(db, template.organization_id)).filter((id) => id !== actorId),
    labels: { template: nameOf(template), organization: template.organization_name, initiator: initiatorOf(ctx) },
    targets: [template.id, template.organization_id],
  });
}

/** Notifies the people with workspaces of a template that it is deprecated, and why. */
export async function notifyTemplateDeprecated(ctx: Ctx, db: Db, template: Subject, message: string): Promise<void> {
  await notify(ctx, db, {
    template: 'templateDeprecated',
    to: await workspaceOwnersOf(db, template.id),
    labels: { template: template.name, organization: template.organization_name, message },
    targets: [template.id, template.organization_id],
  });
}
