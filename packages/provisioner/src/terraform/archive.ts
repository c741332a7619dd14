import { chmodSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate as immediate } from 'node:timers/promises';
import { AppError, ensureDirectorySync, errorText } from '@ropewalk/kit';
import tar from 'tar-stream';

const MAX_FILE = 10 << 20;
const MAX_TOTAL = 100 << 20;
const MAX_ENTRIES = 20_000;
/** The entries that are unpacked in one step. Templates have a few, and a build waits for them. */
const ENTRIES_AT_ONCE = 64;

/** The relative path for a name in the archive. Undefined if the path would leave the directory. */
export function localPath(name: string): string | undefined {
  if (name.includes('\0') || name.includes('\\') || name.startsWith('/') || /^[a-zA-Z]:/.test(name)) return undefined;
  const clean = posix.normalize(name).replace(/\/$/, '');
  return clean === '..' || clean.startsWith('../') ? undefined : clean;
}

/**
 * Unpacks a template's tar into `dir`, which it creates with mode 0700. It writes only directories and regular files
 * and skips links and devices, whose names it returns. The limits are 10 MiB per file, 100 MiB and 20 000 entries in
 * total.
 * @throws AppError `invalid` for a damaged archive, a path that leaves the directory, or an archive over a limit.
 */
export async function unpackArchive(archive: Uint8Array, dir: string): Promise<string[]> {
  ensureDirectorySync(dir, { mode: 0o700 });
  chmodSync(dir, 0o700);
  const extract = tar.extract();
  const source = Readable.from([Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)]);
  source.pipe(extract);
  let total = 0;
  let entries = 0;
  const skipped: string[] = [];
  try {
    for await (const entry of extract) {
      const { name, type, mode } = entry.header;
      if (++entries > MAX_ENTRIES) throw cannotUnpack(`it has more than ${MAX_ENTRIES} entries`);
      if (entries % ENTRIES_AT_ONCE === 0) await immediate();
      const path = localPath(name);
      if (path === undefined) throw cannotUnpack(`the path ${JSON.stringify(name)} leaves the directory`);
      const target = join(dir, path);
      if (type === 'directory') {
        ensureDirectorySync(target, { mode: 0o700 });
        entry.resume();
        continue;
      }
      if (type !== 'file') {
        skipped.push(name);
        entry.resume();
        continue;
      }
      const parts: Buffer[] = [];
      let size = 0;
      for await (const part of entry as AsyncIterable<Buffer>) {
        size += part.length;
        total += part.length;
        if (size > MAX_FILE) throw cannotUnpack(`${JSON.stringify(name)} is larger than ${MAX_FILE >> 20} MiB`);
        if (total > MAX_TOTAL) throw cannotUnpack(`it holds more than ${MAX_TOTAL >> 20} MiB`);
        parts.push(part);
      }
      ensureDirectorySync(dirname(target), { mode: 0o700 });
      // Always with the owner's bits, so that the daemon can read and write the file.
      writeFileSync(target, Buffer.concat(parts), { mode: ((mode ?? 0) & 0o777) | 0o600 });
    }
    return skipped;
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw cannotUnpack(errorText(err), err);
  } finally {
    source.destroy();
    extract.destroy();
  }
}

function cannotUnpack(why: string, cause?: unknown): AppError {
  return new AppError('invalid', `Cannot unpack the template's archive: ${why}.`, { cause });
}
