import { FileArchive } from 'lucide-react';
import { useMemo } from 'react';
import { CopyButton } from '../../../ui/copy.tsx';
import { NativeSelect } from '../../../ui/field.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import { useNarrow } from '../../../ui/use-narrow.ts';
import type { Problem } from '../build/problems.ts';
import { Code } from './code.tsx';
import { FileTree } from './file-tree.tsx';
import type { TarFile } from './tar.ts';
import { textOf } from './text.ts';
import { firstFile } from './tree.ts';

/** Reads the files of a version. */
export function SourceView({
  files,
  selected,
  onSelect,
  problems = [],
  line,
}: {
  files: readonly TarFile[];
  selected: string | undefined;
  onSelect: (path: string) => void;
  problems?: readonly Problem[];
  /** A line of the selected file to show. */
  line?: number | undefined;
}) {
  const narrow = useNarrow();
  const paths = useMemo(() => files.map(({ path }) => path), [files]);
  const path = selected && paths.includes(selected) ? selected : firstFile(paths);
  const file = files.find((each) => each.path === path);
  const text = useMemo(() => (file ? textOf(file.data) : undefined), [file]);
  const place = useMemo(() => (line && path === selected ? { line } : undefined), [line, path, selected]);
  const here = useMemo(() => problems.filter((problem) => problem.file === path), [problems, path]);
  if (!file || path === undefined) {
    return (
      <EmptyState icon={FileArchive} title="No files">
        The archive of this version is empty.
      </EmptyState>
    );
  }
  return (
    <div className="flex min-h-0 flex-col sm:flex-row">
      {narrow ? (
        <div className="border-line border-b p-3">
          <NativeSelect aria-label="File" value={path} onChange={(event) => onSelect(event.target.value)}>
            {paths.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </NativeSelect>
        </div>
      ) : (
        <div className="w-60 shrink-0 overflow-y-auto border-line border-r p-2">
          <FileTree paths={paths} selected={path} onSelect={onSelect} />
        </div>
      )}
      <div className="flex min-w-0 flex-1 flex-col">
        <div className="flex h-10 items-center gap-2 border-line border-b pr-2 pl-4">
          <span className="min-w-0 flex-1 truncate font-mono text-sm">{path}</span>
          {text !== undefined && (
            <>
              <span className="hidden text-muted text-sm sm:inline">{sizeOf(file.data.length)}</span>
              <CopyButton text={text} label="Copy the file" />
            </>
          )}
        </div>
        <div className="h-[max(24rem,calc(100dvh-22rem))]">
          {text === undefined ? (
            <EmptyState icon={FileArchive} title="Not a text file">
              {sizeOf(file.data.length)}
            </EmptyState>
          ) : (
            <Code path={path} text={text} problems={here} place={place} />
          )}
        </div>
      </div>
    </div>
  );
}

/** "512 B", "3.4 kB", "1.2 MB". */
export function sizeOf(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
