import type { ErrorComponentProps } from '@tanstack/react-router';
import { Compass, Lock, TriangleAlert } from 'lucide-react';
import { useEffect } from 'react';
import { statusOf } from '../api/errors.ts';
import { Button, LinkButton } from '../ui/button.tsx';
import { useTitle } from '../ui/page.tsx';
import { EmptyState, ErrorView } from '../ui/states.tsx';
import { paths } from '../util/paths.ts';

/** For addresses that no page has. */
export function NotFoundPage() {
  useTitle('Page not found');
  return (
    <div className="py-16">
      <EmptyState
        isPage
        icon={Compass}
        title="There is no page at this address"
        action={
          <>
            <LinkButton to={paths.workspaces()} look="primary">
              Workspaces
            </LinkButton>
            <LinkButton to={paths.templates()}>Templates</LinkButton>
          </>
        }
      >
        <span className="break-all">{location.pathname}</span> may be mistyped, or what it showed was renamed or
        deleted.
      </EmptyState>
    </div>
  );
}

/** In place of pages that a person may not see. */
export function NoPermission() {
  return (
    <EmptyState
      isPage
      icon={Lock}
      title="You may not see this page"
      action={<LinkButton to={paths.workspaces()}>Workspaces</LinkButton>}
    >
      Ask an administrator for the role that includes it.
    </EmptyState>
  );
}

const RELOADED = 'reloaded-for';
const RELOAD_AGAIN_MS = 60_000;

/** For a page that failed to load or to render. The rest of the dashboard keeps working. */
export function CrashPage({ error, reset }: ErrorComponentProps) {
  useTitle('Something went wrong');
  const outdated = /dynamically imported module|module script failed|error loading/i.test(String(error));
  useEffect(() => {
    if (!outdated) return;
    // an upgrade replaced the page's code. Reloading gets the new one, unless that was just tried
    try {
      const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
      if (Date.now() - last < RELOAD_AGAIN_MS) return;
      sessionStorage.setItem(RELOADED, String(Date.now()));
      location.reload();
    } catch {
      // without storage, the button reloads
    }
  }, [outdated]);
  if (statusOf(error) !== undefined) return <ErrorView error={error} retry={reset} isPage />;
  return (
    <div className="py-16">
      <EmptyState
        isPage
        icon={TriangleAlert}
        title={outdated ? 'This page has changed since it was opened' : 'This page has crashed'}
        action={
          <>
            <Button look="primary" onClick={() => location.reload()}>
              Reload
            </Button>
            <LinkButton to={paths.workspaces()}>Workspaces</LinkButton>
          </>
        }
      >
        {outdated ? (
          'The server was probably upgraded.'
        ) : (
          <>
            Your workspaces are not affected. If it happens again, report this text:
            <code className="mt-3 block whitespace-pre-wrap break-words rounded-md bg-sunken p-3 text-left font-mono text-sm">
              {String(error)}
            </code>
          </>
        )}
      </EmptyState>
    </div>
  );
}
