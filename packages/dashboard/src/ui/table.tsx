import type { Key, ReactNode } from 'react';
import { useDensity } from '../util/theme.ts';
import { cx } from './classes.ts';
import { Skeleton } from './states.tsx';
import { useNarrow } from './use-narrow.ts';
import { ROW_HEIGHT, useWindowRows } from './use-window-rows.ts';

export interface Column<T> {
  name: ReactNode;
  /** A name for assistive technology where `name` is empty. */
  label?: string;
  cell: (row: T) => ReactNode;
  /** A CSS grid track. Default: `minmax(0,1fr)`. */
  width?: string;
  align?: 'end';
  /** The cells are numbers: at the right, with digits of one width. */
  numeric?: boolean;
  /** Hidden on narrow windows. */
  wideOnly?: boolean;
}

/** The last column, with a button or a menu for each row. */
export function actionsColumn<T>(cell: Column<T>['cell']): Column<T> {
  return { name: '', label: 'Actions', width: '2rem', align: 'end', cell };
}

const isAtEnd = ({ align, numeric }: Pick<Column<never>, 'align' | 'numeric'>) => align === 'end' || numeric;

/**
 * A table with a row for each object. Rows beyond the window are not rendered in long tables, so that 10,000 scroll
 * smoothly. Below 640 px columns that are `wideOnly` are left out.
 */
export function Table<T>({
  label,
  columns,
  rows,
  rowKey,
  onRowClick,
  empty,
  loading = false,
  header = true,
}: {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[] | undefined;
  rowKey: (row: T) => Key;
  /** In addition to a link in the row, which keyboards use. */
  onRowClick?: (row: T) => void;
  empty?: ReactNode;
  loading?: boolean;
  header?: boolean;
}) {
  const narrow = useNarrow();
  const shown = narrow ? columns.filter((column) => !column.wideOnly) : columns;
  const template = shown.map((column) => column.width ?? 'minmax(0,1fr)').join(' ');
  const count = rows?.length ?? 0;
  const inWindow = useWindowRows({ count, rowHeight: ROW_HEIGHT[useDensity()], keyOf: (at) => rowKey(rows![at]!) });
  if (!loading && rows && rows.length === 0 && empty) return <>{empty}</>;
  const cells = (row: T) =>
    shown.map((column, at) => (
      <div
        key={at}
        role="cell"
        className={cx(
          'flex min-w-0 items-center',
          isAtEnd(column) && 'justify-end text-right',
          column.numeric && 'tabular-nums',
        )}
      >
        {column.cell(row)}
      </div>
    ));
  const rowClass = cx(
    'grid items-center gap-x-4 border-line border-b px-4 py-(--row-padding) last:border-b-0',
    onRowClick && 'cursor-pointer hover:bg-hover',
  );
  const clickOf = (row: T) =>
    onRowClick && {
      onClick: (event: React.MouseEvent<HTMLElement>) => {
        // controls in the row act for themselves, and selecting text is not a click
        if ((event.target as HTMLElement).closest('a,button,input,label,[role="checkbox"],[role="menuitem"]')) return;
        if (window.getSelection()?.toString()) return;
        onRowClick(row);
      },
    };
  return (
    <div role="table" aria-label={label} aria-rowcount={count + 1} aria-busy={loading || undefined}>
      {header && (
        <div
          role="row"
          className="grid items-center gap-x-4 border-line border-b px-4 py-2 text-muted text-sm"
          style={{ gridTemplateColumns: template }}
        >
          {shown.map((column, at) => (
            <div
              key={at}
              role="columnheader"
              aria-label={column.label}
              className={cx('min-w-0 truncate', isAtEnd(column) && 'text-right')}
            >
              {column.name}
            </div>
          ))}
        </div>
      )}
      {rows === undefined || (loading && count === 0) ? (
        Array.from({ length: 5 }, (_, at) => (
          <div key={at} className="flex h-(--row) items-center gap-4 border-line border-b px-4 last:border-b-0">
            <Skeleton className="w-1/3" />
            <Skeleton className="w-1/4" />
          </div>
        ))
      ) : inWindow.virtual ? (
        <div ref={inWindow.list} role="rowgroup" className="relative" style={{ height: inWindow.height }}>
          {inWindow.rows.map(({ index, key, offset }) => {
            const row = rows[index]!;
            return (
              <div
                key={key}
                ref={inWindow.measure}
                data-index={index}
                role="row"
                aria-rowindex={index + 2}
                className={cx(rowClass, 'absolute inset-x-0 top-0 min-h-(--row)')}
                style={{ gridTemplateColumns: template, transform: `translateY(${offset}px)` }}
                {...clickOf(row)}
              >
                {cells(row)}
              </div>
            );
          })}
        </div>
      ) : (
        <div role="rowgroup">
          {rows.map((row, at) => (
            <div
              key={rowKey(row)}
              role="row"
              aria-rowindex={at + 2}
              className={cx(rowClass, 'min-h-(--row)')}
              style={{ gridTemplateColumns: template }}
              {...clickOf(row)}
            >
              {cells(row)}
            </div>
          ))}
        </div>
      )}
    </div>
  );
}
