import * as fs from 'node:fs/promises';
import type { SFTPWrapper } from 'ssh2';
import type { GivenAttributes } from './sftp-entries.ts';

/** As the client is told them: name and version, as OpenSSH has them. */
const EXTENSIONS: [string, string][] = [
  ['posix-rename@openssh.com', '1'],
  ['hardlink@openssh.com', '1'],
  ['statvfs@openssh.com', '2'],
  ['fstatvfs@openssh.com', '2'],
  ['fsync@openssh.com', '1'],
  ['lsetstat@openssh.com', '1'],
  ['limits@openssh.com', '1'],
  ['copy-data', '1'],
];

const VERSION = 2;
const EXTENDED_REPLY = 201;
const PROTOCOL_VERSION = 3;
const LONGEST_NAME = 255n;
const ATTRIBUTE = { size: 1, owner: 2, mode: 4, times: 8 };

/** Of ssh2's server, what is needed to send packets that it has no method for. Pinned with the version of ssh2. */
interface SftpInternals {
  _protocol: { channelData(id: number, data: Buffer): void };
  _buffer: Buffer[];
  /** Sends what waits; there while something does. */
  _chunkcb: (() => void) | undefined;
  outgoing: { window: number; state: string };
  status(id: number, code: number): void;
}

/** Sends a packet in its turn. ssh2 sends only its own: one of them is made to wait, and this takes its place. */
function sendPacket(sftp: SftpInternals, type: number, payload: Buffer): void {
  const { outgoing } = sftp;
  if (outgoing.state !== 'open') return;
  const packet = Buffer.alloc(5 + payload.length);
  packet.writeUInt32BE(1 + payload.length);
  packet[4] = type;
  payload.copy(packet, 5);
  const { window } = outgoing;
  outgoing.window = 0;
  sftp.status(0, 0);
  sftp._buffer[sftp._buffer.length - 1] = packet;
  outgoing.window = window;
  if (window > 0) sftp._chunkcb?.();
}

function uint32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32BE(value);
  return buffer;
}

function text(value: string): Buffer[] {
  return [uint32(Buffer.byteLength(value)), Buffer.from(value)];
}

/** Tells the client what is served beyond version 3: ssh2's own answer names nothing, and is swallowed. */
export function announceExtensions(wrapper: SFTPWrapper): void {
  const sftp = wrapper as unknown as SftpInternals;
  const protocol = sftp._protocol;
  let swallowed = 0;
  sftp._protocol = Object.create(protocol, {
    channelData: {
      value: (_id: number, data: Buffer) => {
        swallowed += data.length;
      },
    },
  });
  wrapper.once('ready', () => {
    sftp._protocol = protocol;
    sftp._buffer = [];
    sftp.outgoing.window += swallowed;
    sendPacket(sftp, VERSION, Buffer.concat([uint32(PROTOCOL_VERSION), ...EXTENSIONS.flat().flatMap(text)]));
  });
}

/** Answers an extended request with numbers of 64 bits. */
export function sendNumbers(wrapper: SFTPWrapper, id: number, numbers: bigint[]): void {
  const payload = Buffer.alloc(4 + numbers.length * 8);
  payload.writeUInt32BE(id);
  for (const [i, value] of numbers.entries()) payload.writeBigUInt64BE(value, 4 + i * 8);
  sendPacket(wrapper as unknown as SftpInternals, EXTENDED_REPLY, payload);
}

/** Reads what an extended request holds; throws a RangeError where it ends too early. */
export class RequestReader {
  readonly #data: Buffer;
  #at = 0;

  constructor(data: Buffer | undefined) {
    this.#data = data ?? Buffer.alloc(0);
  }

  uint32(): number {
    this.#at += 4;
    return this.#data.readUInt32BE(this.#at - 4);
  }

  uint64(): number {
    this.#at += 8;
    return Number(this.#data.readBigUInt64BE(this.#at - 8));
  }

  bytes(): Buffer {
    const length = this.uint32();
    if (this.#at + length > this.#data.length) throw new RangeError('the request ends too early');
    this.#at += length;
    return this.#data.subarray(this.#at - length, this.#at);
  }

  text(): string {
    return this.bytes().toString();
  }

  attributes(): GivenAttributes {
    const flags = this.uint32();
    const given: GivenAttributes = {};
    if (flags & ATTRIBUTE.size) given.size = this.uint64();
    if (flags & ATTRIBUTE.owner) Object.assign(given, { uid: this.uint32(), gid: this.uint32() });
    if (flags & ATTRIBUTE.mode) given.mode = this.uint32();
    if (flags & ATTRIBUTE.times) Object.assign(given, { atime: this.uint32(), mtime: this.uint32() });
    return given;
  }
}

/** What is known of the file system that holds a path, as an answer has it. */
export async function fileSystemNumbers(path: string): Promise<bigint[]> {
  const { bsize, frsize, blocks, bfree, bavail, files, ffree } = await fs.statfs(path, { bigint: true });
  // Node tells neither its id nor its flags, and for a person as many files are free as for all
  return [bsize, frsize, blocks, bfree, bavail, files, ffree, ffree, 0n, 0n, LONGEST_NAME];
}

/** Sets what a link itself can have; the mode only of what is none. */
export async function setOwnAttributes(path: string, { uid, gid, mode, atime, mtime }: GivenAttributes): Promise<void> {
  if (mode !== undefined) {
    if ((await fs.lstat(path)).isSymbolicLink()) throw new Error('a link has no mode of its own');
    await fs.chmod(path, mode & 0o7777);
  }
  if (uid !== undefined && gid !== undefined) await fs.lchown(path, uid, gid);
  if (atime !== undefined && mtime !== undefined) await fs.lutimes(path, atime, mtime);
}
