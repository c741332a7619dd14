import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { type Key, type RefObject, useLayoutEffect, useRef, useState } from 'react';

/** The height of a row, in pixels, as the tokens say. */
export const ROW_HEIGHT = { comfortable: 52, compact: 38 };
/** Shorter lists are rendered whole, so that the browser's own search finds every row. */
const VIRTUAL_FROM = 100;
/** Rows rendered above and below the window, so that scrolling shows no gaps. */
const OVERSCAN = 12;

/**
 * The rows of a long list that are in the window, for a list that scrolls with the page. `virtual` is false for short
 * lists, whose rows are all rendered.
 */
export function useWindowRows({
  count,
  rowHeight,
  keyOf,
}: {
  count: number;
  /** In pixels. Rows whose element gets `measure` as its ref may differ. */
  rowHeight: number;
  keyOf?: (index: number) => Key;
}) {
  const list: RefObject<HTMLDivElement | null> = useRef(null);
  const [top, setTop] = useState(0);
  const virtual = count >= VIRTUAL_FROM;
  useLayoutEffect(() => {
    if (virtual && list.current) setTop(list.current.getBoundingClientRect().top + window.scrollY);
  }, [virtual]);
  const virtualizer = useWindowVirtualizer({
    // a short list needs no measurements, which take a layout of the page
    enabled: virtual,
    count,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    scrollMargin: top,
    ...(keyOf ? { getItemKey: keyOf } : {}),
  });
  return {
    /** The ref of the element around the rows. */
    list,
    virtual,
    height: virtualizer.getTotalSize(),
    /** `offset` is the distance from the top of the list, in pixels. */
    rows: virtualizer.getVirtualItems().map(({ index, key, start }) => ({ index, key, offset: start - top })),
    measure: virtualizer.measureElement,
  };
}
