import type { Workspace } from '@ropewalk/contract';
import { type ReactNode, useEffect } from 'react';
import { Skeleton } from '../../../ui/states.tsx';
import { useNarrow } from '../../../ui/use-narrow.ts';
import { ROW_HEIGHT, useWindowRows } from '../../../ui/use-window-rows.ts';
import { useDensity } from '../../../util/theme.ts';
import { COLUMNS } from './row.tsx';
import type { Rows } from './use-rows.ts';

/** The rows of a list. Of a long one, only those in the window are rendered and fetched. */
export function RowList({ rows, children }: { rows: Rows; children: (workspace: Workspace) => ReactNode }) {
  const { count = 0, show } = rows;
  const inWindow = useWindowRows({ count, rowHeight: ROW_HEIGHT[useDensity()] });
  const { list, virtual, height, rows: items } = inWindow;
  // only the rows in a phone's window differ in height
  const measure = useNarrow() ? inWindow.measure : undefined;
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => show(first, last), [first, last, show]);
  const cell = (index: number) => {
    const workspace = rows.at(index);
    return workspace ? children(workspace) : <SkeletonRow />;
  };
  if (!virtual)
    return Array.from({ length: count }, (_, index) => (
      <div key={rows.at(index)?.id ?? index} role="listitem">
        {cell(index)}
      </div>
    ));
  return (
    <div ref={list} className="relative" style={{ height }}>
      {items.map(({ index, offset }) => (
        <div
          key={rows.at(index)?.id ?? index}
          ref={measure}
          data-index={index}
          role="listitem"
          aria-posinset={index + 1}
          aria-setsize={count}
          className="absolute inset-x-0 top-0"
          style={{ transform: `translateY(${offset}px)` }}
        >
          {cell(index)}
        </div>
      ))}
    </div>
  );
}

export function SkeletonRow() {
  return (
    <div aria-hidden="true" className={`${COLUMNS} h-(--row) border-line border-b`}>
      <Skeleton className="size-4" />
      <div className="flex items-center gap-3">
        <Skeleton className="size-7" />
        <Skeleton className="w-40" />
      </div>
      <Skeleton className="hidden w-32 md:block" />
      <Skeleton className="hidden w-16 lg:block" />
      <Skeleton className="w-12 justify-self-end" />
    </div>
  );
}
