/** The files that a person edits: a template's source that is not a version yet. */

import type { TarFile } from '../files/tar.ts';
import { textOf } from '../files/text.ts';
import { within } from '../files/tree.ts';

/** A file has a text, or bytes that cannot be edited. */
export interface DraftFile {
  text?: string;
  bytes?: Uint8Array<ArrayBuffer>;
  mode: number;
}

export type Draft = ReadonlyMap<string, DraftFile>;

export function draftOf(files: readonly TarFile[]): Draft {
  return new Map(
    files.map(({ path, data, mode }) => {
      const text = textOf(data);
      return [path, text === undefined ? { bytes: data, mode } : { text, mode }];
    }),
  );
}

export const filesOf = (draft: Draft): TarFile[] =>
  [...draft].map(([path, { text, bytes, mode }]) => ({
    path,
    data: bytes ?? new TextEncoder().encode(text),
    mode,
  }));

/** Scripts are executable. */
const modeOf = (path: string): number => (path.endsWith('.sh') ? 0o755 : 0o644);

/** A new file, or a file with another text. */
export function withText(draft: Draft, path: string, text: string): Draft {
  return new Map(draft).set(path, { text, mode: draft.get(path)?.mode ?? modeOf(path) });
}

/** With uploaded files, which replace those of the same path. */
export const withFiles = (draft: Draft, files: readonly TarFile[]): Draft => new Map([...draft, ...draftOf(files)]);

/** Without a file, or a folder and what is in it. */
export function without(draft: Draft, path: string): Draft {
  const gone = new Set(within(draft.keys(), path));
  return new Map([...draft].filter(([each]) => !gone.has(each)));
}

/** The path that a file has after `from`, a file or a folder, was renamed to `to`. */
export function renamedPath(path: string, from: string, to: string): string {
  return path === from || path.startsWith(`${from}/`) ? to + path.slice(from.length) : path;
}

export const renamed = (draft: Draft, from: string, to: string): Draft =>
  new Map([...draft].map(([path, file]) => [renamedPath(path, from, to), file]));

/** The paths of files that are new or differ from `base`. */
export function changedPaths(draft: Draft, base: Draft): Set<string> {
  const paths = new Set<string>();
  for (const [path, { text, bytes }] of draft) {
    const before = base.get(path);
    if (!before || before.text !== text || before.bytes !== bytes) paths.add(path);
  }
  return paths;
}

/** Whether a draft differs from `base`, also by deleted files. */
export const isChanged = (draft: Draft, base: Draft): boolean =>
  draft !== base && (draft.size !== base.size || changedPaths(draft, base).size > 0);
