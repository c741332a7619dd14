// Files appended to an executable, so that it stays one file and can be sent without them. After the executable itself follow the
// bytes of each file, an index in JSON (`{name: [offset, size]}`), and 16 bytes: the length of the index and MAGIC. Operating
// systems ignore what follows the executable itself. Apple's codesign does not sign such a file.
import { appendFileSync, closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';

const MAGIC = 'appended';
const FOOTER = 8 + MAGIC.length;
const MAX_INDEX = 1 << 20;

type Index = Record<string, [offset: number, size: number]>;

/** Appends the contents of files, by name, to an executable that has none yet. */
export function appendFiles(executable: string, files: Readonly<Record<string, string>>): void {
  let offset = statSync(executable).size;
  const index: Index = Object.create(null);
  for (const [name, file] of Object.entries(files)) {
    const bytes = readFileSync(file);
    appendFileSync(executable, bytes);
    index[name] = [offset, bytes.length];
    offset += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(index));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  appendFileSync(executable, Buffer.concat([text, length, Buffer.from(MAGIC)]));
}

/** The files appended to one executable. It stays open: when a file of the same name replaces it, these are still its own. */
export class AppendedFiles {
  /** The bytes of the executable without the appended files. */
  readonly executableSize: number;
  readonly #fd: number;
  readonly #index: Index;

  private constructor(fd: number, index: Index) {
    this.#fd = fd;
    this.#index = index;
    this.executableSize = Math.min(...Object.values(index).map(([offset]) => offset));
  }

  /** Opens an executable. Undefined if nothing is appended to it. @throws the error of the file system */
  static open(executable: string): AppendedFiles | undefined {
    const fd = openSync(executable, 'r');
    try {
      const { size } = fstatSync(fd);
      if (size > FOOTER) {
        const footer = readAt(fd, size - FOOTER, FOOTER);
        const length = Number(footer.readBigUInt64LE());
        if (footer.toString('latin1', 8) === MAGIC && length <= Math.min(MAX_INDEX, size - FOOTER))
          return new AppendedFiles(fd, JSON.parse(readAt(fd, size - FOOTER - length, length).toString()) as Index);
      }
    } catch (err) {
      closeSync(fd);
      throw err;
    }
    closeSync(fd);
    return undefined;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#index, name);
  }

  /** @throws Error if no file has this name */
  read(name: string): Buffer {
    if (!this.has(name)) throw new Error(`The executable does not contain ${JSON.stringify(name)}.`);
    return readAt(this.#fd, ...this.#index[name]!);
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** The size of an executable without the files appended to it, in bytes. */
export function executableSize(path: string): number {
  const appended = AppendedFiles.open(path);
  if (!appended) return statSync(path).size;
  appended.close();
  return appended.executableSize;
}

function readAt(fd: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  for (let done = 0; done < length; ) {
    const count = readSync(fd, bytes, done, length - done, position + done);
    if (count === 0) throw new Error('The executable is shorter than the index of its appended files says.');
    done += count;
  }
  return bytes;
}
