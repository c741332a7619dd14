import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import { Readable } from 'node:stream';
import { AppError, errorText } from '@platform/kit';
import tar from 'tar-stream';

const MAX_FILE = 10 << 20;
const MAX_TOTAL = 100 << 20;
const MAX_ENTRIES = 20_000;

/** Where a name of the archive may go: relative, below the directory, or undefined. */
function localPath(name: string): string | undefined {
  if (name.includes('\0') || name.includes('\\') || name.startsWith('/') || /^[a-zA-Z]:/.test(name)) return undefined;
  const clean = posix.normalize(name).replace(/\/$/, '');
  return clean === '..' || clean.startsWith('../') ? undefined : clean;
}

/**
 * Unpacks a template's tar into `dir`, which is made with mode 0700. Only directories and regular files are
 * written; links and devices are skipped. At most 10 MiB a file, 100 MiB and 20 000 entries in all.
 * @throws AppError `invalid` for a damaged archive, a path that leaves the directory, or something too large.
 */
export async function unpackArchive(archive: Uint8Array, dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await chmod(dir, 0o700);
  const extract = tar.extract();
  const source = Readable.from([Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)]);
  source.pipe(extract);
  let total = 0;
  let entries = 0;
  try {
    for await (const entry of extract) {
      const { name, type, mode } = entry.header;
      if (++entries > MAX_ENTRIES) throw refuse(`it has more than ${MAX_ENTRIES} entries`);
      const path = localPath(name);
      if (path === undefined) throw refuse(`the path ${JSON.stringify(name)} leaves the directory`);
      const target = join(dir, path);
      if (type === 'directory') {
        await mkdir(target, { recursive: true, mode: 0o700 });
        entry.resume();
        continue;
      }
      if (type !== 'file') {
        entry.resume();
        continue;
      }
      const parts: Buffer[] = [];
      let size = 0;
      for await (const part of entry as AsyncIterable<Buffer>) {
        size += part.length;
        total += part.length;
        if (size > MAX_FILE) throw refuse(`${JSON.stringify(name)} is larger than ${MAX_FILE >> 20} MiB`);
        if (total > MAX_TOTAL) throw refuse(`it holds more than ${MAX_TOTAL >> 20} MiB`);
        parts.push(part);
      }
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      // Owner bits always: a template may not lock its own daemon out.
      await writeFile(target, Buffer.concat(parts), { mode: ((mode ?? 0) & 0o777) | 0o600 });
    }
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw refuse(errorText(err), err);
  } finally {
    source.destroy();
    extract.destroy();
  }
}

function refuse(why: string, cause?: unknown): AppError {
  return new AppError('invalid', `The template's archive can't be unpacked: ${why}.`, { cause });
}
