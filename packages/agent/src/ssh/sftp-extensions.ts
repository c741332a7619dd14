import * as fs from 'node:fs/promises';
import type { SFTPWrapper } from 'ssh2';
import type { GivenAttributes } from './sftp-entries.ts';

/** The names and versions announced to the client, as in OpenSSH. */
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

/**
 * The part of ssh2's server that is needed to send packets it has no method for. Bound to the pinned version of ssh2.
 */
interface SftpInternals {
  _protocol: { channelData(id: number, data: Buffer): void };
  _buffer: Buffer[];
  /** Sends waiting data. Set only while something waits. */
  _chunkcb: (() => void) | undefined;
  outgoing: { window: number; state: string };
  status(id: number, code: number): void;
}

/** Sends a packet in turn. ssh2 queues only its own packets, so one of them waits and this packet replaces it. */
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

/** Announces the extensions beyond version 3. Replaces ssh2's own answer, which names none. */
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

/** Answers an extended request with 64-bit numbers. */
export function sendNumbers(wrapper: SFTPWrapper, id: number, numbers: bigint[]): void {
  const payload = Buffer.alloc(4 + numbers.length * 8);
  payload.writeUInt32BE(id);
  for (const [i, value] of numbers.entries()) payload.writeBigUInt64BE(value, 4 + i * 8);
  sendPacket(wrapper as unknown as SftpInternals, EXTENDED_REPLY, payload);
}

/** Reads the fields of an extended request. Throws a RangeError if it ends too early. */
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

/** Returns the numbers of the file system that holds a path, in the order of the answer. */
export async function fileSystemNumbers(path: string): Promise<bigint[]> {
  const { bsize, frsize, blocks, bfree, bavail, files, ffree } = await fs.statfs(path, { bigint: true });
  // Node reports neither the file system's id nor its flags. The free files of a user are those of everybody.
  return [bsize, frsize, blocks, bfree, bavail, files, ffree, ffree, 0n, 0n, LONGEST_NAME];
}

/** Sets the attributes of a path without following links. Sets the mode only if the path is not a link. */
export async function setOwnAttributes(path: string, { uid, gid, mode, atime, mtime }: GivenAttributes): Promise<void> {
  if (mode !== undefined) {
    if ((await fs.lstat(path)).isSymbolicLink()) throw new Error('Cannot set the mode of a symbolic link');
    await fs.chmod(path, mode & 0o7777);
  }
  if (uid !== undefined && gid !== undefined) await fs.lchown(path, uid, gid);
  if (atime !== undefined && mtime !== undefined) await fs.lutimes(path, atime, mtime);
}
