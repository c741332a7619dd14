/** Links in archives that a person uploads. The server leaves them out, so the form names them. */

import { eachTarEntry } from './tar.ts';

const ZIP_ENTRY = 0x02014b50;
const ZIP_ENTRY_BYTES = 46;
const ZIP_END = 0x06054b50;
const ZIP_END_BYTES = 22;
/** The longest comment at the end of a zip, in bytes. */
const MAX_ZIP_COMMENT = 0xffff;
const TYPE = 0o170000;
const SYMBOLIC_LINK = 0o120000;

/** The paths of the hard and symbolic links of a tar. Empty for one that cannot be read: the server says so. */
export function linksInTar(archive: Uint8Array): string[] {
  const links: string[] = [];
  try {
    eachTarEntry(archive, ({ type, path }) => {
      if (type === '1' || type === '2') links.push(path);
    });
  } catch {
    // the upload reports it
  }
  return links;
}

/** The paths of the symbolic links of a zip. Empty for one that cannot be read. */
export function linksInZip(zip: Uint8Array): string[] {
  const view = new DataView(zip.buffer, zip.byteOffset, zip.byteLength);
  const last = zip.length - ZIP_END_BYTES;
  let end = last;
  while (end >= 0 && end >= last - MAX_ZIP_COMMENT && view.getUint32(end, true) !== ZIP_END) end--;
  if (end < 0 || view.getUint32(end, true) !== ZIP_END) return [];
  const links: string[] = [];
  let at = view.getUint32(end + 16, true);
  while (at + ZIP_ENTRY_BYTES <= end && view.getUint32(at, true) === ZIP_ENTRY) {
    const names = at + ZIP_ENTRY_BYTES;
    const length = view.getUint16(at + 28, true);
    if ((view.getUint16(at + 40, true) & TYPE) === SYMBOLIC_LINK)
      links.push(new TextDecoder().decode(zip.subarray(names, names + length)));
    at = names + length + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return links;
}
