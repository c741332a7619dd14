import type { UseQueryResult } from '@tanstack/react-query';
import { CircleAlert, Lock, type LucideIcon, SearchX } from 'lucide-react';
import { Fragment, type ReactNode } from 'react';
import { errorText, statusOf } from '../api/errors.ts';
import { Button, LinkButton } from './button.tsx';
import { cx } from './classes.ts';

/** What a view shows when it has nothing else to show. */
export function EmptyState({
  icon: Icon,
  title,
  isPage = false,
  children,
  action,
}: {
  icon?: LucideIcon;
  title: ReactNode;
  /** Whether it stands for a whole page, so that its title is the page's heading. */
  isPage?: boolean;
  children?: ReactNode;
  action?: ReactNode;
}) {
  const Title = isPage ? 'h1' : 'h2';
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-14 text-center">
      {Icon && (
        <div className="mb-1 flex size-11 items-center justify-center rounded-xl bg-sunken text-faint">
          <Icon size={20} aria-hidden="true" />
        </div>
      )}
      <Title className="font-medium text-lg">{title}</Title>
      {children && <div className="max-w-md text-balance text-muted">{children}</div>}
      {action && <div className="mt-3 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

/** What a page says about an object that is not there. */
export interface NotFound {
  title: string;
  /** Where such objects are, and the name of the link there. */
  to: string;
  all: string;
}

/** Shows an error instead of a view, with a separate text for an absent object and for a missing permission. */
export function ErrorView({
  error,
  retry,
  isPage = false,
  notFound,
}: {
  error: unknown;
  retry?: () => void;
  /** Whether it stands for a whole page. */
  isPage?: boolean;
  notFound?: NotFound | undefined;
}) {
  const status = statusOf(error);
  if (status === 404 && notFound)
    return (
      <EmptyState
        icon={SearchX}
        isPage={isPage}
        title={notFound.title}
        action={<LinkButton to={notFound.to}>{notFound.all}</LinkButton>}
      >
        It may have been renamed or deleted, or you may not see it.
      </EmptyState>
    );
  const { title, detail } = errorText(error);
  const icon = status === 404 ? SearchX : status === 403 ? Lock : CircleAlert;
  return (
    <EmptyState
      icon={icon}
      title={title}
      isPage={isPage}
      action={retry && status !== 403 && status !== 404 && <Button onClick={retry}>Try again</Button>}
    >
      <div role="alert" className="whitespace-pre-wrap break-words">
        {detail || (status === 404 && 'It may have been deleted, or you may not see it.')}
        {status === 403 && !detail && 'Ask an administrator for the permission.'}
      </div>
    </EmptyState>
  );
}

/** Gray lines in place of text that is loading. */
export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden="true" className={cx('skeleton h-4', className)} />;
}

export function SkeletonLines({ lines = 4 }: { lines?: number }) {
  return (
    <div className="flex flex-col gap-3 py-2">
      <span className="sr-only" role="status">
        Loading
      </span>
      {Array.from({ length: lines }, (_, at) => (
        <Skeleton key={at} className={at % 3 === 2 ? 'w-3/5' : at % 2 ? 'w-4/5' : 'w-full'} />
      ))}
    </div>
  );
}

/** Shows a query's answer, and until then its loading or error state. */
export function QueryView<T>({
  query,
  loading = <SkeletonLines />,
  isPage = false,
  notFound,
  children,
}: {
  query: UseQueryResult<T>;
  loading?: ReactNode;
  /** Whether the page has nothing else. */
  isPage?: boolean;
  notFound?: NotFound;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return <Fragment>{children(query.data)}</Fragment>;
  if (query.isError)
    return <ErrorView error={query.error} retry={() => void query.refetch()} isPage={isPage} notFound={notFound} />;
  return <Fragment>{loading}</Fragment>;
}
