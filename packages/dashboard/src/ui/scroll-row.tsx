import { type ReactNode, useCallback, useEffect, useLayoutEffect, useRef } from 'react';
import { cx } from './classes.ts';

/**
 * A row that scrolls sideways where it does not fit, such as tabs on a phone. Its active element (`aria-current`, or
 * `aria-selected`) is in sight when the row appears and whenever `active` changes. An edge fades where there is more.
 */
export function ScrollRow({
  active,
  className,
  children,
}: {
  /** Changes with the active element. */
  active: string;
  className?: string;
  children: ReactNode;
}) {
  const box = useRef<HTMLDivElement>(null);
  const mark = useCallback(() => {
    const { current } = box;
    if (!current) return;
    const hidden = current.scrollWidth - current.clientWidth - current.scrollLeft;
    // a pixel is left over at some zoom levels
    current.dataset.before = String(current.scrollLeft > 1);
    current.dataset.after = String(hidden > 1);
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another active element is elsewhere
  useLayoutEffect(() => {
    const { current } = box;
    const element = current?.querySelector<HTMLElement>('[aria-current],[aria-selected="true"]');
    if (current && element) {
      const { left, width } = element.getBoundingClientRect();
      current.scrollLeft += left - current.getBoundingClientRect().left - (current.clientWidth - width) / 2;
    }
    mark();
  }, [active, mark]);
  useEffect(() => {
    const { current } = box;
    if (!current) return;
    const observer = new ResizeObserver(mark);
    observer.observe(current);
    // fonts and entries that come later change the width
    for (const child of current.children) observer.observe(child);
    return () => observer.disconnect();
  }, [mark]);
  return (
    <div ref={box} onScroll={mark} className={cx('scroll-row flex overflow-x-auto', className)}>
      {children}
    </div>
  );
}
