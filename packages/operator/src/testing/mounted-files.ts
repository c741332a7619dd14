// Mounts files as a kubelet does for Secrets, ConfigMaps and tokens of service accounts: the files are symbolic links through
// `..data`, which is itself a link to a folder. An update makes another folder and swaps `..data`, so that all files change at
// once. Neither the folder that a container sees nor its links change.
import { mkdirSync, mkdtempSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

export interface MountedFiles {
  folder: string;
  /** Replaces all files together. The names must be the same. */
  replace(files: Record<string, string>): void;
}

/** Mounts files with these texts at a new folder. */
export function mountFiles(folder: string, files: Record<string, string>): MountedFiles {
  const data = join(folder, '..data');
  const write = (texts: Record<string, string>) => {
    const made = mkdtempSync(join(folder, '..version_'));
    for (const [name, text] of Object.entries(texts)) writeFileSync(join(made, name), text);
    symlinkSync(basename(made), `${data}_tmp`);
    renameSync(`${data}_tmp`, data);
  };
  mkdirSync(folder);
  write(files);
  for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(folder, name));
  return {
    folder,
    replace(texts) {
      const old = readlinkSync(data);
      write(texts);
      rmSync(join(folder, old), { recursive: true });
    },
  };
}
