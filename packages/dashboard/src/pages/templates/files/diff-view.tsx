import { ChevronDown, ChevronRight, FileDiff } from 'lucide-react';
import { Fragment, useMemo, useState } from 'react';
import { cx } from '../../../ui/classes.ts';
import { EmptyState } from '../../../ui/states.tsx';
import { type DiffLine, diffFiles, type FileChange, hunksOf, sideBySide } from './diff.ts';
import type { TarFile } from './tar.ts';
import { textOf } from './text.ts';

export type DiffLook = 'unified' | 'split';

const same = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, at) => byte === b[at]);

/** The files that differ between two sources. */
export function changesBetween(before: readonly TarFile[], after: readonly TarFile[]): FileChange[] {
  const texts = (files: readonly TarFile[]) => new Map(files.map(({ path, data }) => [path, textOf(data)]));
  const bytes = (files: readonly TarFile[], path: string) => files.find((file) => file.path === path)!.data;
  return diffFiles(texts(before), texts(after), (path) => same(bytes(before, path), bytes(after, path)));
}

export function DiffView({
  before,
  after,
  look,
}: {
  before: readonly TarFile[];
  after: readonly TarFile[];
  look: DiffLook;
}) {
  const changes = useMemo(() => changesBetween(before, after), [before, after]);
  if (changes.length === 0) {
    return (
      <EmptyState icon={FileDiff} title="No differences">
        Both versions have the same files.
      </EmptyState>
    );
  }
  const sum = (of: 'added' | 'removed') => changes.reduce((total, change) => total + change[of], 0);
  return (
    <div className="flex flex-col gap-3 p-3">
      <div className="text-muted text-sm">
        {changes.length === 1 ? '1 file' : `${changes.length} files`} changed,{' '}
        <Counts added={sum('added')} removed={sum('removed')} />
      </div>
      {changes.map((change) => (
        <FileDiffView key={change.path} change={change} look={look} />
      ))}
    </div>
  );
}

function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span className="whitespace-nowrap font-mono text-xs">
      <span className="text-good">
        +{added}
        <span className="sr-only"> lines added</span>
      </span>{' '}
      <span className="text-bad">
        −{removed}
        <span className="sr-only"> lines removed</span>
      </span>
    </span>
  );
}

const KIND = { added: 'New file', removed: 'Deleted', changed: '' };

function FileDiffView({ change, look }: { change: FileChange; look: DiffLook }) {
  const [open, setOpen] = useState(change.lines.length < 2_000);
  const Chevron = open ? ChevronDown : ChevronRight;
  return (
    <div className="overflow-hidden rounded-md border border-line">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex w-full items-center gap-2 bg-sunken px-3 py-2 text-left"
      >
        <Chevron size={15} aria-hidden="true" className="shrink-0 text-muted" />
        <span className="min-w-0 flex-1 truncate font-mono text-sm">{change.path}</span>
        {KIND[change.kind] && <span className="text-muted text-sm">{KIND[change.kind]}</span>}
        <Counts added={change.added} removed={change.removed} />
      </button>
      {open && (
        <div
          className="overflow-x-auto border-line border-t"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboards scroll it
          tabIndex={0}
          role="group"
          aria-label={`Changes of ${change.path}`}
        >
          {change.lines.length === 0 ? (
            <div className="px-4 py-3 text-muted text-sm">Not a text file.</div>
          ) : look === 'split' ? (
            <Split lines={change.lines} />
          ) : (
            <Unified lines={change.lines} />
          )}
        </div>
      )}
    </div>
  );
}

const ROW: Record<DiffLine['kind'], string> = { same: '', removed: 'bg-bad-soft', added: 'bg-good-soft' };
const SIGN: Record<DiffLine['kind'], string> = { same: ' ', removed: '−', added: '+' };
const NUMBER = 'w-10 select-none px-2 text-right text-muted';
const TEXT = 'whitespace-pre-wrap break-all px-2';

function Skipped({ count, columns }: { count: number; columns: number }) {
  if (count === 0) return null;
  return (
    <tr>
      <td colSpan={columns} className="bg-sunken px-3 py-1 font-sans text-muted text-xs">
        {count === 1 ? '1 unchanged line' : `${count} unchanged lines`}
      </td>
    </tr>
  );
}

function Unified({ lines }: { lines: readonly DiffLine[] }) {
  return (
    <table className="w-full border-collapse font-mono text-xs leading-5">
      <tbody>
        {hunksOf(lines).map((hunk, at) => (
          <Fragment key={at}>
            <Skipped count={hunk.skipped} columns={4} />
            {hunk.lines.map((line) => (
              <tr key={`${line.oldLine ?? ''}:${line.newLine ?? ''}`} className={cx('align-top', ROW[line.kind])}>
                <td className={NUMBER}>{line.oldLine}</td>
                <td className={NUMBER}>{line.newLine}</td>
                <td className="w-4 select-none text-center">{SIGN[line.kind]}</td>
                <td className={TEXT}>{line.text}</td>
              </tr>
            ))}
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}

function Split({ lines }: { lines: readonly DiffLine[] }) {
  const half = (line: DiffLine | undefined, side: 'oldLine' | 'newLine') => {
    const color = line ? ROW[line.kind] : 'bg-sunken';
    return (
      <>
        <td className={cx(NUMBER, color)}>{line?.[side]}</td>
        <td className={cx(TEXT, color, 'w-1/2')}>{line?.text}</td>
      </>
    );
  };
  return (
    <table className="w-full min-w-160 table-fixed border-collapse font-mono text-xs leading-5">
      <colgroup>
        <col className="w-10" />
        <col />
        <col className="w-10" />
        <col />
      </colgroup>
      <tbody>
        {hunksOf(lines).map((hunk, at) => (
          <Fragment key={at}>
            <Skipped count={hunk.skipped} columns={4} />
            {sideBySide(hunk.lines).map(({ left, right }) => (
              <tr key={`${left?.oldLine ?? ''}:${right?.newLine ?? ''}`} className="align-top">
                {half(left, 'oldLine')}
                {half(right, 'newLine')}
              </tr>
            ))}
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}
