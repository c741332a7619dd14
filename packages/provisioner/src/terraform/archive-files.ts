import { Readable } from 'node:stream';
import tar from 'tar-stream';

/** The files of a tar archive whose path matches `wanted`. Empty for an archive that cannot be read. */
export async function archiveFiles(archive: Uint8Array, wanted: RegExp): Promise<Record<string, Uint8Array>> {
  const files: Record<string, Uint8Array> = {};
  const extract = tar.extract();
  Readable.from([Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)]).pipe(extract);
  try {
    for await (const entry of extract) {
      const name = entry.header.name.replace(/^\.\//, '');
      const parts: Buffer[] = [];
      for await (const part of entry as AsyncIterable<Buffer>) if (wanted.test(name)) parts.push(part);
      if (parts.length > 0) files[name] = Buffer.concat(parts);
    }
  } catch {
    return {}; // the job reports it when it unpacks the archive
  }
  return files;
}
