import type { ProvisionerJobLog } from '@platform/contract';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef } from 'react';
import { cx } from '../../../ui/classes.ts';

/** Longer lines are cut: browsers stall on lines of a megabyte. */
const LONGEST = 4_000;
const LINE_HEIGHT = 20;
// biome-ignore lint/suspicious/noControlCharactersInRegex: ANSI escapes begin with one
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g;

const LEVEL: Record<string, string> = {
  error: 'text-bad',
  warn: 'text-warn',
  debug: 'text-muted',
  trace: 'text-muted',
};

type Row = { stage: string } | { line: ProvisionerJobLog };

/** The log of an import by stage. It stays at its end while new lines arrive, unless a person has scrolled up. */
export function LogView({ log, waiting }: { log: readonly ProvisionerJobLog[]; waiting?: string | undefined }) {
  const rows = useMemo(() => {
    const all: Row[] = [];
    let stage = '';
    for (const line of log) {
      if (line.stage !== stage) {
        stage = line.stage;
        all.push({ stage });
      }
      if (line.output !== '') all.push({ line });
    }
    return all;
  }, [log]);
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 30,
  });
  useEffect(() => {
    if (rows.length > 0 && atEnd.current) virtualizer.scrollToIndex(rows.length - 1);
  }, [rows.length, virtualizer]);
  return (
    <div
      ref={box}
      role="log"
      aria-label="Log of the import"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboards scroll it
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollTop + clientHeight > scrollHeight - 2 * LINE_HEIGHT;
      }}
      className="h-full overflow-auto bg-sunken px-4 py-2 font-mono text-xs leading-5"
    >
      {rows.length === 0 ? (
        <div className="text-muted">{waiting ?? 'No lines.'}</div>
      ) : (
        <div className="relative" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const row = rows[item.index]!;
            return (
              <div
                key={item.key}
                ref={virtualizer.measureElement}
                data-index={item.index}
                className="absolute inset-x-0 top-0"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {'stage' in row ? (
                  <div className="pt-2 font-sans font-semibold text-sm">{row.stage}</div>
                ) : (
                  <div className={cx('whitespace-pre-wrap break-all', LEVEL[row.line.log_level])}>
                    {shorten(row.line.output.replace(ESCAPES, ''))}
                  </div>
                )}
              </div>
            );
          })}
        </div>
      )}
    </div>
  );
}

const shorten = (text: string) =>
  text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}… (${text.length.toLocaleString()} characters)`;
