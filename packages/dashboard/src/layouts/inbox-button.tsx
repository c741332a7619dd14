import { useQuery } from '@tanstack/react-query';
import { Bell } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { apiQuery } from '../api/query.ts';
import { Popover } from '../ui/popover.tsx';
import { SkeletonLines } from '../ui/states.tsx';

const loadInbox = () => import('../pages/notifications/inbox.tsx');
const Inbox = lazy(loadInbox);

const WATCHES = [{ kind: 'notification' }] as const;
const MAX_SHOWN = 99;

/** The bell in the frame: the number of unread notifications, and the inbox. */
export function InboxButton() {
  const unread = useQuery(apiQuery('GET /notifications/inbox', WATCHES)).data?.unread_count ?? 0;
  const [open, setOpen] = useState(false);
  const count = unread > MAX_SHOWN ? `${MAX_SHOWN}+` : String(unread);
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      trigger={
        <button
          type="button"
          aria-label={unread > 0 ? `Notifications: ${count} unread` : 'Notifications'}
          onPointerEnter={() => void loadInbox()}
          className="relative flex size-8 items-center justify-center rounded-md text-muted transition-colors hover:bg-hover hover:text-text"
        >
          <Bell size={17} aria-hidden="true" />
          {unread > 0 && (
            <span
              aria-hidden="true"
              className="-top-0.5 -right-0.5 absolute flex h-4 min-w-4 items-center justify-center rounded-full bg-accent px-1 font-medium text-[10px] text-on-accent"
            >
              {count}
            </span>
          )}
        </button>
      }
    >
      <Suspense fallback={<SkeletonLines lines={6} />}>
        <Inbox onOpenLink={() => setOpen(false)} />
      </Suspense>
    </Popover>
  );
}
