import { type AnyRouter, useRouter } from '@tanstack/react-router';
import type { ComponentPropsWithRef, MouseEvent } from 'react';
import { cx } from './classes.ts';

/** Underlined, since color alone does not set a link apart from the text around it. */
const TEXT_LINK =
  'text-accent-text underline decoration-accent-text/35 underline-offset-2 hover:decoration-accent-text';

export interface LinkProps extends Omit<ComponentPropsWithRef<'a'>, 'href'> {
  /** An address from `paths`, with its query. */
  to: string;
  /** Without the look of a link in a text. */
  plain?: boolean;
  replace?: boolean;
}

/** How long a pointer stays over a link before its page is fetched, in ms. */
const PRELOAD_DELAY_MS = 30;
let preloading: ReturnType<typeof setTimeout> | undefined;

const cancelPreload = () => clearTimeout(preloading);
function preloadSoon(router: AnyRouter, to: string): void {
  cancelPreload();
  const { pathname, search } = new URL(to, location.origin);
  const page = { to: pathname, search: Object.fromEntries(new URLSearchParams(search)) };
  preloading = setTimeout(() => void router.preloadRoute(page as never), PRELOAD_DELAY_MS);
}

/** Whether the browser would open the link's page in this tab. */
const opensHere = (event: MouseEvent<HTMLAnchorElement>) =>
  event.button === 0 &&
  !(event.metaKey || event.altKey || event.ctrlKey || event.shiftKey) &&
  ['', '_self'].includes(event.currentTarget.target) &&
  !event.defaultPrevented;

/**
 * A link to a page of the dashboard. Hovering or focusing it fetches the page's code and data. The router's own link
 * looks for its route when it is rendered, which is a tenth of the time of a long list.
 */
export function Link({
  to,
  plain = false,
  className,
  replace = false,
  onClick,
  onFocus,
  onBlur,
  onMouseEnter,
  onMouseLeave,
  ...rest
}: LinkProps) {
  const router = useRouter();
  return (
    <a
      {...rest}
      href={to}
      className={cx(!plain && TEXT_LINK, className)}
      onClick={(event) => {
        onClick?.(event);
        if (!opensHere(event)) return;
        event.preventDefault();
        cancelPreload();
        void router.navigate({ href: to, replace });
      }}
      onFocus={(event) => {
        onFocus?.(event);
        preloadSoon(router, to);
      }}
      onBlur={(event) => {
        onBlur?.(event);
        cancelPreload();
      }}
      onMouseEnter={(event) => {
        onMouseEnter?.(event);
        preloadSoon(router, to);
      }}
      onMouseLeave={(event) => {
        onMouseLeave?.(event);
        cancelPreload();
      }}
    />
  );
}

/** A link in a row of a table or a list: it has the text's color, and a line under it when it is pointed at. */
export function RowLink({ className, ...rest }: Omit<LinkProps, 'plain'>) {
  return <Link {...rest} plain className={cx('underline-offset-2 hover:underline', className)} />;
}

/** A link out of the dashboard, in a new tab. */
export function ExternalLink({ className, children, ...rest }: ComponentPropsWithRef<'a'>) {
  return (
    <a {...rest} target="_blank" rel="noreferrer" className={cx(TEXT_LINK, className)}>
      {children}
    </a>
  );
}
