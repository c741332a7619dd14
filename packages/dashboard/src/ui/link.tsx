import { Link as RouterLink } from '@tanstack/react-router';
import type { ComponentPropsWithRef } from 'react';
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

/** A link to a page of the dashboard. Hovering it fetches the page's code and data. */
export function Link({ to, plain = false, className, replace, ...rest }: LinkProps) {
  const { pathname, search, hash } = new URL(to, 'http://dashboard');
  return (
    <RouterLink
      {...rest}
      to={pathname as never}
      search={Object.fromEntries(new URLSearchParams(search)) as never}
      {...(hash ? { hash: hash.slice(1) } : {})}
      {...(replace ? { replace } : {})}
      className={cx(!plain && TEXT_LINK, className)}
    />
  );
}

/** A link out of the dashboard, in a new tab. */
export function ExternalLink({ className, children, ...rest }: ComponentPropsWithRef<'a'>) {
  return (
    <a {...rest} target="_blank" rel="noreferrer" className={cx(TEXT_LINK, className)}>
      {children}
    </a>
  );
}
