/** Template sources travel as tar archives. This reads and writes them in the browser. */

const BLOCK = 512;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

export interface TarFile {
  /** Relative, with forward slashes. */
  path: string;
  data: Uint8Array<ArrayBuffer>;
  mode: number;
}

const textAt = (block: Uint8Array, at: number, length: number): string => {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return decoder.decode(end < 0 ? field : field.subarray(0, end));
};

const numberAt = (block: Uint8Array, at: number, length: number): number =>
  Number.parseInt(textAt(block, at, length).trim() || '0', 8);

/** The values of a PAX header: lines of `<length> <name>=<value>`, whose lengths count bytes. */
function paxValues(data: Uint8Array): Record<string, string> {
  const values: Record<string, string> = {};
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at);
    const length = space < 0 ? 0 : Number(decoder.decode(data.subarray(at, space)));
    if (!(length > 0)) break;
    const line = decoder.decode(data.subarray(space + 1, at + length - 1));
    const equals = line.indexOf('=');
    values[line.slice(0, equals)] = line.slice(equals + 1);
    at += length;
  }
  return values;
}

interface TarEntry extends TarFile {
  /** The character of the header: `0` for a regular file, `1` for a hard and `2` for a symbolic link. */
  type: string;
}

/** Calls `entry` for each file, link, device and folder of a tar. @throws if it is not a tar */
export function eachTarEntry(archive: Uint8Array, entry: (entry: TarEntry) => void): void {
  let next: { path?: string; size?: number } = {};
  for (let at = 0; at + BLOCK <= archive.length; ) {
    const header = archive.subarray(at, at + BLOCK);
    if (header.every((byte) => byte === 0)) break;
    if (checksum(header) !== numberAt(header, 148, 8)) throw new Error('The archive is not a readable tar.');
    const type = String.fromCharCode(header[156] || 0x30);
    const size = next.size ?? numberAt(header, 124, 12);
    const data = archive.slice(at + BLOCK, at + BLOCK + size);
    if (data.length < size) throw new Error('The archive ends too early.');
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    if (type === 'x') {
      const { path, size: long } = paxValues(data);
      next = { ...(path ? { path } : {}), ...(long ? { size: Number(long) } : {}) };
    } else if (type === 'L') {
      next = { path: textAt(data, 0, data.length) };
    } else if (type !== 'g') {
      const prefix = textAt(header, 257, 5) === 'ustar' ? textAt(header, 345, 155) : '';
      const name = next.path ?? (prefix ? `${prefix}/${textAt(header, 0, 100)}` : textAt(header, 0, 100));
      entry({ path: name.replace(/^(\.\/)+/, ''), data, mode: numberAt(header, 100, 8), type });
      next = {};
    }
  }
}

/** The regular files of a tar, by path. Links, devices and empty folders are left out. @throws if it is not a tar */
export function readTar(archive: Uint8Array): TarFile[] {
  const files = new Map<string, TarFile>();
  eachTarEntry(archive, ({ type, ...file }) => {
    const { path } = file;
    if ((type === '0' || type === '7') && path !== '' && !path.endsWith('/')) files.set(path, file);
  });
  return [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The sum of a header's bytes, with blanks in place of the sum itself. */
function checksum(header: Uint8Array): number {
  let sum = 8 * 0x20;
  for (const [at, byte] of header.entries()) if (at < 148 || at >= 156) sum += byte;
  return sum;
}

/** Packs files. The result depends only on them, so that the server recognizes an unchanged upload. */
export function writeTar(files: readonly TarFile[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const add = (name: string, type: string, mode: number, data: Uint8Array) => {
    parts.push(headerOf(name, type, mode, data.length), data, new Uint8Array(-data.length & (BLOCK - 1)));
  };
  for (const { path, data, mode } of [...files].sort((a, b) => (a.path < b.path ? -1 : 1))) {
    const bytes = encoder.encode(path);
    if (bytes.length > 100) add('pax', 'x', 0o644, paxRecord('path', path));
    add(decoder.decode(bytes.subarray(0, 100)).replace(/�$/, ''), '0', mode, data);
  }
  parts.push(new Uint8Array(2 * BLOCK));
  const archive = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    archive.set(part, at);
    at += part.length;
  }
  return archive;
}

function headerOf(name: string, type: string, mode: number, size: number): Uint8Array {
  const header = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => header.set(encoder.encode(text), at);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');
  put(0, name);
  put(100, octal(mode & 0o7777, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(size, 11));
  put(136, octal(0, 11));
  put(156, type);
  put(257, 'ustar\u000000');
  put(148, `${octal(checksum(header), 6)}\0 `);
  return header;
}

/** A PAX line contains its own length, whose digits count too. */
function paxRecord(name: string, value: string): Uint8Array {
  const rest = encoder.encode(` ${name}=${value}\n`).length;
  let length = rest + 1;
  while (length !== rest + String(length).length) length = rest + String(length).length;
  return encoder.encode(`${length} ${name}=${value}\n`);
}
