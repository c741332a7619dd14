import { useMemo, useState } from 'react';
import type { Place } from '../files/code-view.tsx';
import type { TarFile } from '../files/tar.ts';
import { firstFile, within } from '../files/tree.ts';
import {
  changedPaths,
  type Draft,
  draftOf,
  isChanged,
  renamed,
  renamedPath,
  withFiles,
  without,
  withText,
} from './draft.ts';

/** The files that a person edits: what is in them, which of them are open, and the place that the editor shows. */
export function useDraft(files: readonly TarFile[]) {
  const [base, setBase] = useState(() => draftOf(files));
  const [draft, setDraft] = useState(base);
  const paths = useMemo(() => [...draft.keys()].sort(), [draft]);
  const changed = useMemo(() => changedPaths(draft, base), [draft, base]);
  const [open, setOpen] = useState<readonly string[]>(() => [firstFile(paths)].filter((path) => path !== undefined));
  const [active, setActive] = useState<string | undefined>(open[0]);
  const [place, setPlace] = useState<Place>();
  const close = (gone: readonly string[]) => {
    const rest = open.filter((path) => !gone.includes(path));
    setOpen(rest);
    if (active !== undefined && gone.includes(active)) setActive(rest[Math.min(open.indexOf(active), rest.length - 1)]);
  };
  return {
    draft,
    paths,
    /** The paths of new files, and of those that differ from the last build. */
    changed,
    /** Whether anything differs from the last build. */
    dirty: isChanged(draft, base),
    /** The files of a build are those that later changes are compared with. */
    markBuilt: (built: Draft) => setBase(built),
    open,
    active,
    file: active === undefined ? undefined : draft.get(active),
    place,
    select(path: string, line?: number) {
      if (!draft.has(path)) return;
      setOpen((before) => (before.includes(path) ? before : [...before, path]));
      setActive(path);
      setPlace(line === undefined ? undefined : { line });
    },
    close,
    write: (path: string, text: string) => setDraft((before) => withText(before, path, text)),
    create(path: string) {
      setDraft((before) => withText(before, path, ''));
      setOpen((before) => [...before, path]);
      setActive(path);
    },
    rename(from: string, to: string) {
      setDraft((before) => renamed(before, from, to));
      setOpen((before) => before.map((path) => renamedPath(path, from, to)));
      setActive((before) => before && renamedPath(before, from, to));
    },
    remove(path: string) {
      close(within(paths, path));
      setDraft((before) => without(before, path));
    },
    /** Adds files, which replace those of the same path, and opens the first one. */
    add(uploaded: readonly TarFile[]) {
      setDraft((before) => withFiles(before, uploaded));
      const [first] = uploaded;
      if (!first) return;
      setOpen((before) => [...new Set([...before, first.path])]);
      setActive(first.path);
    },
  };
}

export type DraftFiles = ReturnType<typeof useDraft>;
