import { lstatSync, readdirSync, readlinkSync, realpathSync, renameSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';

export interface Linked {
  /** The new links, as paths in the repository. */
  linked: string[];
  /** The renamed files. */
  kept: [from: string, to: string][];
}

/**
 * Creates a symbolic link in `into` for each dotfile of `from`. Renames existing files to a free name, so that nothing is
 * lost. Keeps existing links. A folder that contains `from`, as ~/.config usually does, cannot be renamed: the function
 * links its entries one by one.
 * @param from,into absolute paths.
 */
export function linkDotfiles(from: string, into: string): Linked {
  const done: Linked = { linked: [], kept: [] };
  ensureDirectorySync(into);
  for (const name of readdirSync(from).sort()) {
    if (name.startsWith('.') && name !== '.git') linkOne(from, into, name, done);
  }
  return done;
}

function linkOne(from: string, into: string, path: string, done: Linked): void {
  const [source, target] = [join(from, path), join(into, path)];
  const there = lstatSync(target, { throwIfNoEntry: false });
  if (there?.isSymbolicLink() && readlinkSync(target) === source) return;
  if (there?.isDirectory() && isDirectory(source) && realpathSync(from).startsWith(`${realpathSync(target)}/`)) {
    for (const name of readdirSync(source).sort()) linkOne(from, into, join(path, name), done);
    return;
  }
  if (there) {
    const kept = asideName(target);
    renameSync(target, kept);
    done.kept.push([target, kept]);
  }
  symlinkSync(source, target);
  done.linked.push(path);
}

const isDirectory = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** A free name next to a file: with `.bak`, then `.bak.1` and so on. */
export function asideName(path: string): string {
  for (let i = 0; ; i++) {
    const name = `${path}.bak${i === 0 ? '' : `.${i}`}`;
    if (!lstatSync(name, { throwIfNoEntry: false })) return name;
  }
}
