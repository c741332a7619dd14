import { ownValue } from '@ropewalk/kit/own-value';
import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDownToLine, ChevronDown, ChevronUp, Download } from 'lucide-react';
import { memo, useDeferredValue, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { formatClock, formatExact } from '../util/time.ts';
import { type AnsiPart, ansiParts, plainText } from './ansi.ts';
import { Button, IconButton } from './button.tsx';
import { cx, textTone } from './classes.ts';
import { NativeSelect } from './field.tsx';
import type { LogLine, LogState, LogStore } from './log-store.ts';
import { SearchInput } from './search-input.tsx';

const LINE_HEIGHT = 20;
/** The browser lays out no more of a line. A download has all of it. */
const LONGEST_LINE = 4_000;
/** How near the end counts as the end, in pixels. */
const END_PX = 40;

const STATES: Partial<Record<LogState, string>> = {
  connecting: 'Loading the log…',
  away: 'The connection was lost. The log continues once the server answers.',
  rejected: 'You may not read this log any more.',
};

/** The index of a line in the log. */
export interface LogTarget {
  index: number;
}

/** The section of the log that is shown, or all of them. */
function useSection(lines: readonly LogLine[], count: number) {
  const [section, setSection] = useState('');
  const sections = useMemo(() => [...new Set(lines.slice(0, count).map((line) => line.section))], [lines, count]);
  const shown = useMemo(() => {
    const all = lines.slice(0, count);
    return section === '' ? all : all.filter((line) => line.section === section);
  }, [lines, count, section]);
  return { section, setSection, sections, shown };
}

/** The box that scrolls: which lines are visible, and whether it follows new ones. */
function useScroll(count: number) {
  const box = useRef<HTMLDivElement>(null);
  const [follow, setFollow] = useState(true);
  const virtualizer = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  useEffect(() => {
    if (follow && count > 0 && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [follow, count]);
  return {
    box,
    virtualizer,
    follow,
    setFollow,
    show(index: number) {
      setFollow(false);
      virtualizer.scrollToIndex(index, { align: 'center' });
    },
  };
}

/** The searched text, and the match that the person has come to. `show` scrolls to a line. */
function useSearch(shown: readonly LogLine[], show: (index: number) => void) {
  const [text, setText] = useState('');
  const [match, setMatch] = useState(0);
  const wanted = useDeferredValue(text.trim().toLowerCase());
  const matches = useMemo(
    () =>
      wanted === ''
        ? []
        : shown.flatMap((line, at) => (plainText(line.text).toLowerCase().includes(wanted) ? [at] : [])),
    [shown, wanted],
  );
  return {
    text,
    setText(next: string) {
      setText(next);
      setMatch(0);
    },
    /** What the lines are searched for. It follows the text as fast as the page can. */
    wanted,
    match,
    count: matches.length,
    /** The index of the line. */
    current: matches[match],
    /** Shows the next match, or the one before. */
    step(by: 1 | -1) {
      if (matches.length === 0) return;
      const next = (match + by + matches.length) % matches.length;
      setMatch(next);
      show(matches[next]!);
    },
  };
}

/** Shows each new target once. */
function useTarget(
  target: LogTarget | undefined,
  { section, setSection }: ReturnType<typeof useSection>,
  { box, virtualizer, setFollow }: ReturnType<typeof useScroll>,
): void {
  const reached = useRef<LogTarget>(undefined);
  useEffect(() => {
    if (!target || reached.current === target) return;
    // the index counts all lines
    if (section !== '') return setSection('');
    reached.current = target;
    setFollow(false);
    virtualizer.scrollToIndex(target.index, { align: 'center' });
    box.current?.focus({ preventScroll: true });
    box.current?.scrollIntoView({ block: 'nearest' });
  }, [target, section, setSection, virtualizer, setFollow, box]);
}

/** A log with search, sections, download, and following of new lines. Only visible lines are rendered. */
export function LogView({
  store,
  name,
  label,
  empty = 'The log is empty.',
  height = 'h-112',
  target,
}: {
  store: LogStore;
  /** The name of the downloaded file, without its ending. */
  name: string;
  label: string;
  empty?: string;
  height?: string;
  /** A line to show: the log scrolls to it, marks it and takes the focus. A new object shows its line again. */
  target?: LogTarget | undefined;
}) {
  const { lines, count, state } = useSyncExternalStore(store.subscribe, store.snapshot);
  const sections = useSection(lines, count);
  const { shown } = sections;
  const scroll = useScroll(shown.length);
  const { box, virtualizer, follow, setFollow } = scroll;
  const search = useSearch(shown, scroll.show);
  useTarget(target, sections, scroll);
  const items = virtualizer.getVirtualItems();
  const notice = STATES[state] ?? (count === 0 && state === 'complete' ? empty : undefined);
  const quiet = useQuiet(state === 'open' && count === 0);
  if (count === 0 && (quiet || (state !== 'connecting' && state !== 'open')))
    return (
      <div
        role="log"
        aria-label={label}
        className="rounded-lg border border-line bg-sunken px-3 py-2 text-muted text-sm"
      >
        {notice ?? empty}
      </div>
    );
  return (
    <div className="flex max-h-full flex-col overflow-hidden rounded-lg border border-line bg-surface">
      <Tools
        label={label}
        sections={sections}
        search={search}
        follow={follow}
        onFollow={() => setFollow(true)}
        onDownload={() => download(lines, name)}
      />
      <div
        ref={box}
        role="log"
        aria-label={label}
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        tabIndex={0}
        className={cx('relative min-h-0 overflow-auto bg-sunken font-mono text-xs leading-5', height)}
        onWheel={() => setFollow(atEnd(box.current))}
        onScroll={() => {
          if (!follow && atEnd(box.current)) setFollow(true);
        }}
        onPointerDown={() => setFollow(atEnd(box.current))}
        onKeyDown={() => setFollow(atEnd(box.current))}
      >
        {notice && <div className="p-3 font-sans text-muted text-sm">{notice}</div>}
        <div style={{ height: virtualizer.getTotalSize() }} className="relative">
          <div
            className="absolute top-0 left-0 w-max min-w-full"
            style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}
          >
            {items.map(({ index }) => {
              const line = shown[index]!;
              return (
                <Line
                  key={index}
                  line={line}
                  newSection={line.section !== shown[index - 1]?.section}
                  search={search.wanted}
                  current={index === search.current || line === lines[target?.index ?? -1]}
                />
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

/** Above the lines: the sections, the search, following and the download. */
function Tools({
  label,
  sections: { section, setSection, sections },
  search,
  follow,
  onFollow,
  onDownload,
}: {
  label: string;
  sections: ReturnType<typeof useSection>;
  search: ReturnType<typeof useSearch>;
  follow: boolean;
  onFollow: () => void;
  onDownload: () => void;
}) {
  return (
    <div className="flex flex-wrap items-center gap-2 border-line border-b p-2">
      {sections.length > 1 && (
        <div className="w-48 max-w-full">
          <NativeSelect aria-label="Section" value={section} onChange={(event) => setSection(event.target.value)}>
            <option value="">All sections</option>
            {sections.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </NativeSelect>
        </div>
      )}
      <div className="flex min-w-40 flex-1">
        <SearchInput
          label={`Search in ${label.toLowerCase()}`}
          placeholder="Search"
          value={search.text}
          onChange={search.setText}
          onKeyDown={(event) => {
            if (event.key === 'Enter') search.step(event.shiftKey ? -1 : 1);
          }}
        />
      </div>
      {search.wanted !== '' && (
        <div className="flex items-center gap-1 text-muted text-sm">
          <span aria-live="polite" className="tabular-nums">
            {search.count === 0 ? 'No match' : `${search.match + 1} of ${search.count.toLocaleString()}`}
          </span>
          <IconButton icon={ChevronUp} size="sm" label="Previous match" onClick={() => search.step(-1)} />
          <IconButton icon={ChevronDown} size="sm" label="Next match" onClick={() => search.step(1)} />
        </div>
      )}
      <div className="flex items-center gap-1">
        {!follow && (
          <Button size="sm" look="ghost" icon={ArrowDownToLine} onClick={onFollow}>
            Follow
          </Button>
        )}
        <IconButton icon={Download} size="sm" label="Download the log" onClick={onDownload} />
      </div>
    </div>
  );
}

/** How long an open log has to be without a line to count as empty, in ms. What is in it comes right after the opening. */
const QUIET_MS = 600;

function useQuiet(waits: boolean): boolean {
  const [quiet, setQuiet] = useState(false);
  useEffect(() => {
    setQuiet(false);
    if (!waits) return;
    const timer = setTimeout(() => setQuiet(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, [waits]);
  return quiet;
}

function atEnd(box: HTMLElement | null): boolean {
  return box !== null && box.scrollHeight - box.scrollTop - box.clientHeight < END_PX;
}

const LEVELS: Record<string, string> = {
  error: 'text-bad',
  warn: 'text-warn',
  debug: 'text-faint',
  trace: 'text-faint',
};

const Line = memo(function Line({
  line,
  newSection,
  search,
  current,
}: {
  line: LogLine;
  newSection: boolean;
  search: string;
  current: boolean;
}) {
  const long = line.text.length > LONGEST_LINE;
  const text = long ? line.text.slice(0, LONGEST_LINE) : line.text;
  return (
    <div
      aria-current={current || undefined}
      className={cx(
        'flex h-5 items-center whitespace-pre pr-4',
        current ? 'bg-warn-soft' : 'hover:bg-hover',
        ownValue(LEVELS, line.level),
      )}
    >
      <time
        dateTime={line.at}
        title={formatExact(line.at)}
        className="sticky left-0 w-24 shrink-0 select-none bg-sunken px-3 text-faint tabular-nums"
      >
        {formatClock(line.at)}
      </time>
      {newSection && line.section && (
        <span className="mr-2 rounded-sm bg-accent-soft px-1.5 font-sans font-semibold text-accent-text">
          {line.section}
        </span>
      )}
      {ansiParts(text).map((part, at) => (
        <Part key={at} part={part} search={search} />
      ))}
      {long && (
        <span className="ml-2 font-sans text-faint">
          {(line.text.length - LONGEST_LINE).toLocaleString()} more characters: download the log to read them
        </span>
      )}
    </div>
  );
});

function Part({ part, search }: { part: AnsiPart; search: string }) {
  const className = cx(
    part.tone && textTone[part.tone],
    part.bold && 'font-semibold',
    part.dim && 'text-faint',
    part.italic && 'italic',
    part.underline && 'underline',
  );
  return <span className={className}>{search === '' ? part.text : marked(part.text, search)}</span>;
}

/** The text, with matches of the search marked. */
function marked(text: string, search: string) {
  const lower = text.toLowerCase();
  const pieces: React.ReactNode[] = [];
  let at = 0;
  for (let found = lower.indexOf(search); found >= 0; found = lower.indexOf(search, at)) {
    pieces.push(
      text.slice(at, found),
      <mark key={found} className="rounded-xs bg-warn-soft text-warn outline outline-warn">
        {text.slice(found, found + search.length)}
      </mark>,
    );
    at = found + search.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

function download(lines: readonly LogLine[], name: string): void {
  const text = lines.map((line) => `${line.at} [${line.section}] ${plainText(line.text)}\n`);
  const address = URL.createObjectURL(new Blob(text, { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = `${name}.log`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
