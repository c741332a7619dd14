import { ownValue } from '@ropewalk/kit/own-value';
import type { Db } from '../../db/connect.ts';
import { peopleWithRoles } from '../../db/queries/notifications.ts';
import type { Ctx } from '../context/context.ts';
import { notify } from './enqueue.ts';
import type { TemplateName } from './templates.ts';

/** The name of the person who does this. */
export const initiatorOf = ({ actor }: Ctx): string =>
  actor.kind === 'user' ? actor.username : actor.kind === 'system' ? 'The server' : 'Somebody';

/** The templates about an account for those who manage accounts, and the one for the person, if any. */
const ABOUT: Readonly<Record<string, readonly [TemplateName, TemplateName?]>> = {
  created: ['userCreated'],
  deleted: ['userDeleted'],
  suspended: ['userSuspended', 'yourAccountSuspended'],
  activated: ['userActivated', 'yourAccountActivated'],
};

/** Sends a notice about a person's new address to the person, and by mail to the old address. */
export async function notifyEmailChanged(
  ctx: Ctx,
  db: Db,
  user: { id: string; username: string; email: string },
  { after, initiator }: { after: string; initiator: string },
): Promise<void> {
  const labels = { username: user.username, before: user.email, after, initiator };
  await notify(ctx, db, { template: 'emailChanged', to: [user.id], labels, targets: [user.id], address: user.email });
}

/** Notifies owners and user admins, except the one who did it, and the person of a change of an account. */
export async function notifyAccount(
  ctx: Ctx,
  db: Db,
  what: 'created' | 'deleted' | 'suspended' | 'activated',
  user: { id: string; username: string },
): Promise<void> {
  const [forAdmins, forPerson] = ownValue(ABOUT, what)!;
  const labels = { username: user.username, initiator: initiatorOf(ctx) };
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const admins = (await peopleWithRoles(db, ['owner', 'user-admin'])).filter((id) => id !== actorId && id !== user.id);
  await notify(ctx, db, { template: forAdmins, to: admins, labels, targets: [user.id] });
  if (forPerson) await notify(ctx, db, { template: forPerson, to: [user.id], labels, targets: [user.id] });
}
