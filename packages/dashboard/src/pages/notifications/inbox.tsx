import type { InboxNotification } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Bell, CheckCheck, FileBox, type LucideIcon, Settings, SquareStack, UserRound } from 'lucide-react';
import { call } from '../../api/client.ts';
import { useChange } from '../../api/query.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { cx } from '../../ui/classes.ts';
import { Link } from '../../ui/link.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { formatExact, formatRelative, useNow } from '../../util/time.ts';

const WATCHES = [{ kind: 'notification' }] as const;
const PAGE = 25;

const ICONS: Readonly<Record<string, LucideIcon>> = {
  DEFAULT_ICON_WORKSPACE: SquareStack,
  DEFAULT_ICON_ACCOUNT: UserRound,
  DEFAULT_ICON_TEMPLATE: FileBox,
};

/** The notifications of the person, newest first. */
export default function Inbox({ onOpenLink }: { onOpenLink: () => void }) {
  const now = useNow(60_000);
  const inbox = useInfiniteQuery({
    queryKey: ['GET /notifications/inbox', 'pages'],
    queryFn: ({ pageParam }) =>
      call('GET /notifications/inbox', { query: pageParam ? { starting_before: pageParam } : {} }),
    initialPageParam: '',
    getNextPageParam: ({ notifications }) => (notifications.length < PAGE ? undefined : notifications.at(-1)!.id),
    meta: { watches: WATCHES },
  });
  const markAll = useChange(() => call('PUT /notifications/inbox/mark-all-as-read'), {
    refetch: ['GET /notifications/inbox'],
  });
  const mark = useChange(
    ({ id, is_read }: { id: string; is_read: boolean }) =>
      call('PUT /notifications/inbox/{id}/read-status', { params: { id }, body: { is_read } }),
    { refetch: ['GET /notifications/inbox'] },
  );
  const all = inbox.data?.pages.flatMap(({ notifications }) => notifications) ?? [];
  const unread = inbox.data?.pages[0]?.unread_count ?? 0;
  return (
    <section aria-label="Notifications" className="-m-4 flex flex-col">
      <header className="flex items-center gap-1 border-line border-b py-2 pr-2 pl-4">
        <h2 className="flex-1 font-semibold">Notifications</h2>
        {all.length > 0 && (
          <IconButton
            icon={CheckCheck}
            size="sm"
            label="Mark all as read"
            disabled={unread === 0}
            pending={markAll.isPending}
            onClick={() => markAll.mutate()}
          />
        )}
        <Link
          to={paths.settings('notifications')}
          plain
          onClick={onOpenLink}
          aria-label="Notification settings"
          title="Notification settings"
          className="flex size-7 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-text"
        >
          <Settings size={16} aria-hidden="true" />
        </Link>
      </header>
      {inbox.isError ? (
        <ErrorView error={inbox.error} retry={() => void inbox.refetch()} />
      ) : !inbox.data ? (
        <div className="p-4">
          <SkeletonLines lines={6} />
        </div>
      ) : all.length === 0 ? (
        <EmptyState icon={Bell} title="No notifications">
          What happens to your workspaces, templates and accounts appears here.
        </EmptyState>
      ) : (
        <>
          <ul className="flex flex-col">
            {all.map((each) => (
              <Item
                key={each.id}
                notification={each}
                now={now}
                onOpenLink={() => {
                  if (each.read_at === null) mark.mutate({ id: each.id, is_read: true });
                  onOpenLink();
                }}
                onToggle={() => mark.mutate({ id: each.id, is_read: each.read_at === null })}
              />
            ))}
          </ul>
          {inbox.hasNextPage && (
            <div className="p-3 text-center">
              <Button size="sm" pending={inbox.isFetchingNextPage} onClick={() => void inbox.fetchNextPage()}>
                Show older
              </Button>
            </div>
          )}
        </>
      )}
    </section>
  );
}

function Item({
  notification,
  now,
  onOpenLink,
  onToggle,
}: {
  notification: InboxNotification;
  now: number;
  onOpenLink: () => void;
  onToggle: () => void;
}) {
  const { title, content, actions, created_at, read_at, icon } = notification;
  const Icon = ownValue(ICONS, icon) ?? Bell;
  const unread = read_at === null;
  return (
    <li className="flex gap-3 border-line border-b px-4 py-3 last:border-b-0">
      <span className="mt-0.5 flex size-7 shrink-0 items-center justify-center rounded-md bg-active text-muted">
        <Icon size={15} aria-hidden="true" />
      </span>
      <div className="min-w-0 flex-1">
        <h3 className={cx('break-words', unread ? 'font-semibold' : 'font-medium')}>{title}</h3>
        <div className="break-words text-muted text-sm">
          <Markdown text={content} />
        </div>
        <div className="mt-1 flex flex-wrap items-center gap-x-3 text-sm">
          <time dateTime={created_at} title={formatExact(created_at)} className="text-muted">
            {formatRelative(created_at, now)}
          </time>
          {actions.map(({ label, url }) => (
            <Link key={url} to={ownPath(url)} onClick={onOpenLink}>
              {label}
            </Link>
          ))}
        </div>
      </div>
      <button
        type="button"
        aria-label={unread ? `Mark as read: ${title}` : `Mark as unread: ${title}`}
        title={unread ? 'Mark as read' : 'Mark as unread'}
        onClick={onToggle}
        className="flex size-6 shrink-0 items-center justify-center rounded-md hover:bg-hover"
      >
        <span
          aria-hidden="true"
          className={cx('size-2 rounded-full', unread ? 'bg-accent' : 'border border-line-strong')}
        />
      </button>
    </li>
  );
}

/** The path of an action. Actions are pages of this server, whatever address a person uses for it. */
function ownPath(url: string): string {
  if (!URL.canParse(url)) return url;
  const { pathname, search } = new URL(url);
  return pathname + search;
}
