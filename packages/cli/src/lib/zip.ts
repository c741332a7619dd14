import { crc32, deflateRawSync } from 'node:zlib';

const UTF8_NAMES = 0x0800;
const DEFLATED = 8;

interface Entry {
  name: Buffer;
  head: Buffer;
  data: Buffer;
  offset: number;
}

/** A zip archive of these files, by path. For small ones: all is held in memory. */
export function makeZip(files: Readonly<Record<string, string | Uint8Array>>, date = new Date()): Buffer {
  const entries: Entry[] = [];
  let offset = 0;
  for (const [path, content] of Object.entries(files)) {
    const plain = Buffer.from(content as string);
    const data = deflateRawSync(plain);
    const name = Buffer.from(path);
    // what the local header and the directory have in common
    const head = Buffer.alloc(26);
    head.writeUInt16LE(20, 0);
    head.writeUInt16LE(UTF8_NAMES, 2);
    head.writeUInt16LE(DEFLATED, 4);
    head.writeUInt16LE((date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1), 6);
    head.writeUInt16LE(((date.getFullYear() - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate(), 8);
    head.writeUInt32LE(crc32(plain), 10);
    head.writeUInt32LE(data.length, 14);
    head.writeUInt32LE(plain.length, 18);
    head.writeUInt16LE(name.length, 22);
    entries.push({ name, head, data, offset });
    offset += 4 + head.length + name.length + data.length;
  }
  const local = entries.flatMap(({ head, name, data }) => [Buffer.from('PK\x03\x04', 'latin1'), head, name, data]);
  const directory = Buffer.concat(
    entries.flatMap(({ head, name, offset: at }) => {
      const rest = Buffer.alloc(14);
      rest.writeUInt32LE(at, 10);
      return [Buffer.from('PK\x01\x02\x14\x00', 'latin1'), head, rest, name];
    }),
  );
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...local, directory, end]);
}
