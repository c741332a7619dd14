import type { Workspace } from '@platform/contract';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Skeleton } from '../../../ui/states.tsx';
import { COLUMNS, ROW_HEIGHT } from './row.tsx';
import type { Rows } from './use-rows.ts';

const OVERSCAN = 10;
/** Shorter lists are rendered whole, so that the browser's own search finds every row. */
const VIRTUAL_FROM = 100;

/** The rows of a list. Of a long one, only those in the window are rendered and fetched. */
export function RowList({ rows, children }: { rows: Rows; children: (workspace: Workspace) => ReactNode }) {
  const { count = 0, show } = rows;
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const virtual = count > VIRTUAL_FROM;
  useLayoutEffect(() => {
    if (virtual && list.current) setTop(list.current.getBoundingClientRect().top + window.scrollY);
  }, [virtual]);
  const virtualizer = useWindowVirtualizer({
    count: virtual ? count : 0,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
    scrollMargin: top,
  });
  const items = virtualizer.getVirtualItems();
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
    <div ref={list} className="relative" style={{ height: virtualizer.getTotalSize() }}>
      {items.map(({ index, start }) => (
        <div
          key={rows.at(index)?.id ?? index}
          role="listitem"
          aria-posinset={index + 1}
          aria-setsize={count}
          className="absolute inset-x-0 top-0"
          style={{ transform: `translateY(${start - top}px)` }}
        >
          {cell(index)}
        </div>
      ))}
    </div>
  );
}

export function SkeletonRow() {
  return (
    <div aria-hidden="true" className={`${COLUMNS} h-[61px] border-line border-b`}>
      <Skeleton className="size-4" />
      <div className="flex items-center gap-3">
        <Skeleton className="size-[30px]" />
        <Skeleton className="w-40" />
      </div>
      <Skeleton className="hidden w-32 md:block" />
      <Skeleton className="hidden w-20 md:block" />
      <Skeleton className="hidden w-16 lg:block" />
      <Skeleton className="w-12 justify-self-end" />
    </div>
  );
}
