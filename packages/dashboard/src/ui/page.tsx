import { type ReactNode, useEffect } from 'react';
import { cx } from './classes.ts';

/** Sets the tab's title while the component is shown. */
export function useTitle(...parts: (string | undefined)[]): void {
  const title = [...parts.filter(Boolean), 'Ropewalk'].join(' · ');
  useEffect(() => {
    document.title = title;
  }, [title]);
}

/** The frame of a page: title, actions, content. `title` is also the tab's title if it is a text. */
export function Page({
  title,
  description,
  actions,
  width = 'wide',
  children,
}: {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** `narrow` is for forms and texts, `full` uses the whole window. */
  width?: 'narrow' | 'wide' | 'full';
  children: ReactNode;
}) {
  useTitle(title);
  return (
    <div
      className={cx(
        'mx-auto flex w-full flex-col gap-5 px-4 py-6 sm:px-6',
        width === 'narrow' ? 'max-w-2xl' : width === 'wide' ? 'max-w-7xl' : '',
      )}
    >
      <PageHeader title={title} description={description} actions={actions} />
      {children}
    </div>
  );
}

/** The title of an object's page. Its badges follow the last word on the same line. */
export function Heading({ badges, children }: { badges?: ReactNode; children: ReactNode }) {
  return (
    <div>
      <h1 className="inline wrap-anywhere font-semibold text-2xl tracking-tight">{children}</h1>
      {badges && (
        <>
          {/* no line ends here */}
          {'\u00a0'}
          <span className="ml-1 inline-flex items-center gap-2.5 align-middle">{badges}</span>
        </>
      )}
    </div>
  );
}

export function PageHeader({
  title,
  description,
  actions,
}: {
  title: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <header className="flex flex-wrap items-start gap-x-4 gap-y-3">
      <div className="min-w-52 flex-1">
        <h1 className="wrap-anywhere font-semibold text-2xl tracking-tight">{title}</h1>
        {description && <div className="mt-1 text-muted">{description}</div>}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  );
}

/** A titled part of a page in a box. */
export function Section({
  title,
  description,
  actions,
  danger = false,
  flush = false,
  className,
  children,
}: {
  title?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  danger?: boolean;
  /** Without padding, for tables and lists. */
  flush?: boolean;
  className?: string;
  children?: ReactNode;
}) {
  return (
    <section
      className={cx(
        'overflow-hidden rounded-lg border bg-surface',
        danger ? 'border-bad/40' : 'border-line',
        className,
      )}
    >
      {(title || actions) && (
        <header
          className={cx(
            'flex flex-wrap items-center gap-3 px-4',
            // without content: there is none, or only a dialog that is closed
            flush ? 'border-line border-b py-3' : 'pt-4 last:pb-4 has-[+div:empty]:pb-4',
          )}
        >
          <div className="min-w-48 flex-1">
            {title && <h2 className="font-semibold text-base">{title}</h2>}
            {description && <div className="mt-0.5 text-muted text-sm">{description}</div>}
          </div>
          {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
        </header>
      )}
      {children !== undefined && <div className={flush ? '' : 'flex flex-col gap-4 p-4 empty:hidden'}>{children}</div>}
    </section>
  );
}

/** Names and values. */
export function Facts({
  facts,
}: {
  facts: readonly (readonly [name: ReactNode, value: ReactNode] | false | undefined)[];
}) {
  return (
    <dl className="grid grid-cols-[minmax(6rem,max-content)_1fr] gap-x-6 gap-y-2">
      {facts.map((fact, at) =>
        fact ? (
          <div key={at} className="contents">
            <dt className="text-muted">{fact[0]}</dt>
            <dd className="min-w-0 break-words">{fact[1]}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}
