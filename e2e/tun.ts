import { type ChildProcessWithoutNullStreams, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { formatAddress, MTU, parseAddress, Stack } from '@ropewalk/tailnet';
import { seededRandom } from '@ropewalk/wire/testing/sockets';

const run = promisify(execFile);
const works = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;

/** Options of a test that needs the kernel's network stack in a namespace. */
export const needsTun = {
  skip:
    process.getuid?.() !== 0 || !existsSync('/dev/net/tun')
      ? 'needs root and /dev/net/tun'
      : !works('unshare', '--net', 'ip', 'link')
        ? 'needs network namespaces, and the program ip (of the package iproute2)'
        : !works('python3', '-c', '') && 'needs python3',
};

/** What the link between both stacks does to packets of either direction. */
export interface Impairment {
  /** Shares from 0 to 1. */
  loss?: number;
  reordered?: number;
  delayMs?: number;
}

/** Our stack, and the kernel's in a network namespace, with a link between them. */
export class KernelNetwork {
  readonly stack: Stack;
  readonly addresses: { ours: Buffer; kernel: Buffer } = {
    ours: parseAddress('fd7a:115c:a1e0::a')!,
    kernel: parseAddress('fd7a:115c:a1e0::b')!,
  };
  impairment: Impairment = {};
  readonly #tun: ChildProcessWithoutNullStreams;
  readonly #random = seededRandom(0x5eed_0001);
  #pending: Buffer = Buffer.alloc(0);
  #isCorked = false;

  private constructor(tun: ChildProcessWithoutNullStreams) {
    this.#tun = tun;
    this.stack = new Stack({
      addresses: [this.addresses.ours],
      onPacket: (packet) => this.#impair(() => this.#write(packet)),
    });
    tun.stdout.on('data', (chunk: Buffer) => this.#read(chunk));
    tun.stdin.on('error', () => {});
  }

  static async start(): Promise<KernelNetwork> {
    const program = join(import.meta.dirname, 'tun.py');
    const tun = spawn('unshare', ['--net', 'python3', program, 'fd7a:115c:a1e0::b/64', `${MTU}`]);
    const network = new KernelNetwork(tun);
    const [ready] = (await once(tun.stderr, 'data')) as [Buffer];
    if (!ready.includes('ready')) throw new Error(`Cannot create a TUN device: ${ready}`);
    return network;
  }

  get ours(): string {
    return formatAddress(this.addresses.ours);
  }

  get kernel(): string {
    return formatAddress(this.addresses.kernel);
  }

  /** A command on the kernel's side. */
  command(program: string, ...args: string[]): [string, string[]] {
    return ['nsenter', ['--target', `${this.#tun.pid}`, '--net', program, ...args]];
  }

  /** Runs a program on the kernel's side. Returns its output. */
  async run(program: string, ...args: string[]): Promise<string> {
    const [nsenter, all] = this.command(program, ...args);
    return (await run(nsenter, all, { timeout: 60_000, maxBuffer: 1e9, encoding: 'latin1' })).stdout;
  }

  /** Runs a script of Node on the kernel's side until `stop`. Resolves when it has printed a line, with that line. */
  async script(text: string): Promise<{ line: string; stop(): Promise<void> }> {
    const [nsenter, all] = this.command(process.execPath, '-e', text);
    const child = spawn(nsenter, all, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exit = once(child, 'exit');
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    return {
      line: line.toString().trim(),
      async stop() {
        child.kill();
        await exit;
      },
    };
  }

  async close(): Promise<void> {
    this.stack.close();
    const exit = once(this.#tun, 'exit');
    this.#tun.stdin.end();
    await exit;
  }

  #chance(share: number | undefined): boolean {
    return share !== undefined && this.#random(1_000_000) < share * 1_000_000;
  }

  /** Passes a packet after its delay, or never. */
  #impair(pass: () => void): void {
    const { loss, reordered, delayMs = 0 } = this.impairment;
    if (this.#chance(loss)) return;
    const ms = delayMs + (this.#chance(reordered) ? 3 : 0);
    if (ms === 0) pass();
    else setTimeout(pass, ms);
  }

  #write(packet: Buffer): void {
    const { stdin } = this.#tun;
    if (!stdin.writable) return;
    if (!this.#isCorked) {
      this.#isCorked = true;
      stdin.cork();
      setImmediate(() => {
        this.#isCorked = false;
        stdin.uncork();
      });
    }
    const length = Buffer.alloc(2);
    length.writeUInt16BE(packet.length);
    stdin.write(length);
    stdin.write(packet);
  }

  #read(chunk: Buffer): void {
    this.#pending = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
    let at = 0;
    while (this.#pending.length - at >= 2) {
      const end = at + 2 + this.#pending.readUInt16BE(at);
      if (end > this.#pending.length) break;
      const packet = this.#pending.subarray(at + 2, end);
      this.#impair(() => this.stack.receive(packet));
      at = end;
    }
    this.#pending = this.#pending.subarray(at);
  }
}
