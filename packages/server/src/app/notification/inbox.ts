import type {
  InboxNotification,
  ListInboxNotificationsResponse,
  UpdateInboxNotificationReadStatusResponse,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { UserActor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { verifiedToken } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import {
  countUnread,
  type InboxFilter,
  type InboxRow,
  inboxAfter,
  inboxPage,
  isInInbox,
  setAllRead,
  setRead,
} from '../../db/queries/notifications.ts';
import type { Ctx } from '../context/context.ts';
import type { Source } from '../follow/follow.ts';
import { badQuery } from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';
import { time } from '../values/time.ts';

const PAGE = 25;

export interface InboxQuery {
  targets?: string;
  templates?: string;
  read_status?: string;
  starting_before?: string;
}

function filterOf({ targets, templates, read_status: status = 'all' }: InboxQuery): InboxFilter {
  const ids = (field: string, text: string | undefined) => {
    const list = (text ?? '').split(',').filter(Boolean);
    const bad = list.find((id) => !isUuid(id));
    if (bad !== undefined) throw badQuery(field, `${JSON.stringify(bad)} is not a UUID`);
    return list;
  };
  if (!['', 'all', 'read', 'unread'].includes(status)) throw badQuery('read_status', 'must be all, read or unread');
  return {
    targets: ids('targets', targets),
    templates: ids('templates', templates),
    read: status === 'read' ? true : status === 'unread' ? false : undefined,
  };
}

/** The person whose inbox a request is about: always the caller. */
function reader(ctx: Ctx, action: 'read' | 'update' = 'read'): UserActor {
  const { actor } = ctx;
  if (actor.kind !== 'user') throw new AppError('forbidden', 'Only users have a notification inbox.');
  authorize(ctx, action, { type: 'inbox_notification', ownerId: actor.id });
  return actor;
}

const toNotification = (row: InboxRow, contentOf = (markdown: string) => markdown): InboxNotification => ({
  id: row.id,
  user_id: row.user_id,
  template_id: row.template_id,
  targets: row.targets,
  title: row.title,
  content: contentOf(row.content),
  icon: row.icon,
  actions: row.actions,
  read_at: row.read_at ? time(row.read_at) : null,
  created_at: time(row.created_at),
});

/** The newest notifications of the caller, and how many of all are unread. */
export async function listInbox(ctx: Ctx, query: InboxQuery): Promise<ListInboxNotificationsResponse> {
  const { id } = reader(ctx);
  const rows = await inboxPage(ctx.sql, id, filterOf(query), { before: query.starting_before, limit: PAGE });
  return { notifications: rows.map((row) => toNotification(row)), unread_count: await countUnread(ctx.sql, id) };
}

async function announce(ctx: Ctx, db: Db, userId: string): Promise<void> {
  await ctx.events.publish(db, 'object_changed', { kind: 'notification', id: userId, owner_id: userId });
}

export async function setReadStatus(
  ctx: Ctx,
  id: string,
  read: boolean,
): Promise<UpdateInboxNotificationReadStatusResponse> {
  const actor = reader(ctx, 'update');
  if (!isUuid(id) || !(await isInInbox(ctx.sql, actor.id, id))) throw notFound();
  return ctx.sql.begin(async (tx) => {
    const row = await setRead(tx, verifiedToken(actor), id, read);
    if (!row) throw notFound();
    await announce(ctx, tx, actor.id);
    const message = read ? 'The notification is marked as read.' : 'The notification is marked as unread.';
    return { message, notification: toNotification(row), unread_count: await countUnread(tx, actor.id) };
  });
}

export async function markAllRead(ctx: Ctx): Promise<undefined> {
  const actor = reader(ctx, 'update');
  await ctx.sql.begin(async (tx) => {
    await setAllRead(tx, verifiedToken(actor));
    await announce(ctx, tx, actor.id);
  });
}

/** New notifications of the caller as they come, each with the number of unread ones. */
export function inboxSource(ctx: Ctx, query: InboxQuery & { format?: string }): Source {
  const { id } = reader(ctx);
  const filter = filterOf(query);
  if (!['', 'plaintext', 'markdown'].includes(query.format ?? '')) {
    throw badQuery('format', 'must be plaintext or markdown');
  }
  const plain = query.format === 'plaintext';
  const since = ctx.clock.now();
  let last: InboxRow | undefined;
  return {
    permission: (now) => reader(now),
    subscribe: (wake) =>
      ctx.events.on('object_changed', ({ kind, owner_id }) => {
        if (kind === 'notification' && owner_id === id) wake();
      }),
    async next() {
      const rows = await inboxAfter(ctx.sql, id, filter, last, since);
      if (rows.length === 0) return { messages: [], more: false, end: false };
      last = rows.at(-1);
      const unread_count = await countUnread(ctx.sql, id);
      const contentOf = plain ? (await import('./markdown.ts')).markdownToText : undefined;
      const messages = rows.map((row) =>
        JSON.stringify({ notification: toNotification(row, contentOf), unread_count }),
      );
      return { messages, more: rows.length === 100, end: false };
    },
  };
}
