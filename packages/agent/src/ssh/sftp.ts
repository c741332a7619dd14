import type { Stats } from 'node:fs';
import * as fs from 'node:fs/promises';
import { resolve } from 'node:path';
import type { SFTPWrapper } from 'ssh2';
import protocol from 'ssh2/lib/protocol/SFTP.js';
import { OrderedAnswers, type Reply, SftpError } from './sftp-answers.ts';
import { attributes, entry, type GivenAttributes } from './sftp-entries.ts';
import {
  announceExtensions,
  fileSystemNumbers,
  RequestReader,
  sendNumbers,
  setOwnAttributes,
} from './sftp-extensions.ts';
import { copyData, openFlags, setAttributes, writeAll } from './sftp-files.ts';
import { Handles, MAX_HANDLES } from './sftp-handles.ts';

const { STATUS_CODE: STATUS } = protocol;

/** The maximum number of bytes of one read, whatever the client asks for. */
const MAX_READ = 256 * 1024;
const READDIR_BATCH = 128;
/** The largest packet that ssh2 accepts. */
const MAX_PACKET = 256 * 1024;
/** The announced size of one read or write. Larger ones halved the speed of downloads. */
const GOOD_DATA = 32 * 1024;

/** Serves one extended request. Throws if the request ends too early. */
type Extension = (id: number, request: RequestReader) => void;

/**
 * Serves SFTP version 3 to one client with the user's own rights. Relative paths start at `home`. Renaming replaces an
 * existing file. Handles are closed when the client has ended, and `ended` is called then.
 */
export function serveSftp(sftp: SFTPWrapper, home: string, ended: () => void): void {
  new SftpServer(sftp, home, ended).serve();
}

class SftpServer {
  readonly #sftp: SFTPWrapper;
  readonly #home: string;
  readonly #ended: () => void;
  readonly #answers: OrderedAnswers;
  readonly #handles = new Handles();

  constructor(sftp: SFTPWrapper, home: string, ended: () => void) {
    this.#sftp = sftp;
    this.#home = home;
    this.#ended = ended;
    this.#answers = new OrderedAnswers(sftp);
  }

  serve(): void {
    this.#serveFiles();
    this.#serveDirectories();
    this.#servePaths();
    this.#serveExtensions();
    const end = () => this.#end();
    this.#sftp.on('end', end);
    this.#sftp.on('close', end);
    this.#sftp.on('error', () => {});
  }

  #end(): void {
    if (this.#answers.over) return;
    this.#answers.stop();
    void this.#handles.closeAll();
    this.#ended();
  }

  #at(path: string): string {
    return resolve(this.#home, path);
  }

  #serveFiles(): void {
    const sftp = this.#sftp;
    const answers = this.#answers;
    const handles = this.#handles;
    sftp.on('OPEN', (id, path, flags, attrs) =>
      answers.reply(id, () => this.#open(id, this.#at(path), flags, attrs as GivenAttributes)),
    );
    sftp.on('READ', (id, handle, offset, length) =>
      handles.hold(
        handle,
        answers.reply(id, () => this.#read(id, handle, offset, length)),
      ),
    );
    sftp.on('WRITE', (id, handle, offset, data) =>
      handles.hold(
        handle,
        answers.confirm(id, async () => writeAll(handles.file(handle), data, offset)),
      ),
    );
    sftp.on('FSTAT', (id, handle) =>
      handles.hold(
        handle,
        this.#replyAttributes(id, async () => handles.file(handle).stat()),
      ),
    );
    sftp.on('FSETSTAT', (id, handle, attrs) =>
      handles.hold(
        handle,
        answers.confirm(id, async () => setAttributes(handles.file(handle), attrs as GivenAttributes)),
      ),
    );
    sftp.on('CLOSE', (id, handle) => answers.confirm(id, () => handles.close(handle)));
  }

  async #open(id: number, path: string, flags: number, { mode }: GivenAttributes): Promise<Reply> {
    this.#handles.checkRoom();
    const file = await fs.open(path, openFlags(flags), mode === undefined ? 0o666 : mode & 0o7777);
    const handle = this.#handles.add({ file, path });
    return () => this.#sftp.handle(id, handle);
  }

  async #read(id: number, handle: Buffer, offset: number, length: number): Promise<Reply> {
    const buffer = Buffer.allocUnsafe(Math.min(length, MAX_READ));
    const { bytesRead } = await this.#handles.file(handle).read(buffer, 0, buffer.length, offset);
    if (bytesRead === 0 && length > 0) return () => this.#sftp.status(id, STATUS.EOF);
    return () => this.#sftp.data(id, buffer.subarray(0, bytesRead));
  }

  #serveDirectories(): void {
    const sftp = this.#sftp;
    const answers = this.#answers;
    sftp.on('OPENDIR', (id, path) => answers.reply(id, () => this.#openDirectory(id, this.#at(path))));
    sftp.on('READDIR', (id, handle) =>
      this.#handles.hold(
        handle,
        answers.reply(id, () => this.#list(id, handle)),
      ),
    );
    sftp.on('MKDIR', (id, path, attrs) =>
      answers.confirm(id, async () => {
        const mode = (attrs as GivenAttributes).mode;
        await fs.mkdir(this.#at(path), mode === undefined ? {} : { mode: mode & 0o7777 });
      }),
    );
    sftp.on('RMDIR', (id, path) => answers.confirm(id, () => fs.rmdir(this.#at(path))));
  }

  async #openDirectory(id: number, path: string): Promise<Reply> {
    this.#handles.checkRoom();
    const dir = await fs.opendir(path);
    const handle = this.#handles.add({ directory: { path, dir, begun: false } });
    return () => this.#sftp.handle(id, handle);
  }

  async #list(id: number, handle: Buffer): Promise<Reply> {
    const { directory } = this.#handles.find(handle);
    if (!directory) throw new SftpError(STATUS.FAILURE, 'Not a directory');
    const names = directory.begun ? [] : ['.', '..'];
    directory.begun = true;
    while (names.length < READDIR_BATCH) {
      const next = await directory.dir.read();
      if (!next) break;
      names.push(next.name);
    }
    if (names.length === 0) return () => this.#sftp.status(id, STATUS.EOF);
    // Leave out files that vanished after the listing.
    const entries = await Promise.all(names.map((name) => entry(directory.path, name)));
    return () =>
      this.#sftp.name(
        id,
        entries.filter((item) => item !== undefined),
      );
  }

  #servePaths(): void {
    const sftp = this.#sftp;
    const answers = this.#answers;
    const at = (path: string) => this.#at(path);
    sftp.on('LSTAT', (id, path) => this.#replyAttributes(id, () => fs.lstat(at(path))));
    sftp.on('STAT', (id, path) => this.#replyAttributes(id, () => fs.stat(at(path))));
    sftp.on('SETSTAT', (id, path, attrs) =>
      answers.confirm(id, () => setAttributes(at(path), attrs as GivenAttributes)),
    );
    sftp.on('REMOVE', (id, path) => answers.confirm(id, () => fs.unlink(at(path))));
    sftp.on('RENAME', (id, from, to) => answers.confirm(id, () => fs.rename(at(from), at(to))));
    // ssh2 passes the link first, whatever its declarations say, and knows that OpenSSH swaps the two.
    sftp.on('SYMLINK', (id, link, target) => answers.confirm(id, () => fs.symlink(target, at(link))));
    sftp.on('READLINK', (id, path) => this.#replyName(id, () => fs.readlink(at(path))));
    // A path that does not exist yet still has a name.
    sftp.on('REALPATH', (id, path) => this.#replyName(id, () => fs.realpath(at(path)).catch(() => at(path))));
  }

  #serveExtensions(): void {
    const extensions = this.#extensions();
    this.#sftp.on('EXTENDED', (id, name, data) => {
      const serve = extensions.get(name);
      try {
        if (serve) serve(id, new RequestReader(data));
        else this.#reject(id, new SftpError(STATUS.OP_UNSUPPORTED, `${name} is not supported`));
      } catch (err) {
        // The request ends too early.
        this.#reject(id, err);
      }
    });
    announceExtensions(this.#sftp);
  }

  #extensions(): Map<string, Extension> {
    const answers = this.#answers;
    const handles = this.#handles;
    const at = (request: RequestReader) => this.#at(request.text());
    return new Map<string, Extension>([
      ['posix-rename@openssh.com', (id, request) => answers.confirm(id, () => fs.rename(at(request), at(request)))],
      ['hardlink@openssh.com', (id, request) => answers.confirm(id, () => fs.link(at(request), at(request)))],
      ['statvfs@openssh.com', (id, request) => this.#replyNumbers(id, () => fileSystemNumbers(at(request)))],
      [
        'fstatvfs@openssh.com',
        (id, request) => {
          const handle = request.bytes();
          const done = this.#replyNumbers(id, async () => fileSystemNumbers(this.#pathOf(handle)));
          handles.hold(handle, done);
        },
      ],
      [
        'fsync@openssh.com',
        (id, request) => {
          const handle = request.bytes();
          handles.hold(
            handle,
            answers.confirm(id, async () => handles.file(handle).sync()),
          );
        },
      ],
      [
        'lsetstat@openssh.com',
        (id, request) => answers.confirm(id, () => setOwnAttributes(at(request), request.attributes())),
      ],
      [
        'limits@openssh.com',
        (id) => this.#replyNumbers(id, async () => [MAX_PACKET, GOOD_DATA, GOOD_DATA, MAX_HANDLES].map(BigInt)),
      ],
      ['copy-data', (id, request) => this.#copyData(id, request)],
    ]);
  }

  #copyData(id: number, request: RequestReader): void {
    const [from, offset, length] = [request.bytes(), request.uint64(), request.uint64()];
    const [to, toOffset] = [request.bytes(), request.uint64()];
    const handles = this.#handles;
    const isOver = () => this.#answers.over;
    const done = this.#answers.confirm(id, async () =>
      copyData({ from: handles.file(from), offset, length, to: handles.file(to), toOffset, isOver }),
    );
    handles.hold(from, done);
    handles.hold(to, done);
  }

  /** A path that leads to what is open, even after it was renamed or deleted if the system has such paths. */
  #pathOf(handle: Buffer): string {
    const { file, path, directory } = this.#handles.find(handle);
    return file && process.platform === 'linux' ? `/proc/self/fd/${file.fd}` : (path ?? directory!.path);
  }

  #replyAttributes(id: number, find: () => Promise<Stats>): Promise<void> {
    return this.#answers.reply(id, async () => {
      const found = attributes(await find());
      return () => this.#sftp.attrs(id, found);
    });
  }

  #replyName(id: number, find: () => Promise<string>): Promise<void> {
    return this.#answers.reply(id, async () => {
      const filename = await find();
      const attrs = { mode: 0, uid: 0, gid: 0, size: 0, atime: 0, mtime: 0 };
      return () => this.#sftp.name(id, [{ filename, longname: filename, attrs }]);
    });
  }

  #replyNumbers(id: number, find: () => Promise<bigint[]>): Promise<void> {
    return this.#answers.reply(id, async () => {
      const found = await find();
      return () => sendNumbers(this.#sftp, id, found);
    });
  }

  #reject(id: number, err: unknown): void {
    void this.#answers.confirm(id, () => Promise.reject(err));
  }
}
