import { StringDecoder } from 'node:string_decoder';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { formatLogNumbers, LOG_SEQUENCE_KEY } from '@ropewalk/wire/log-sequence';
import { Log_Level } from '@ropewalk/wire/proto/agent';
import { Notifier } from './notifier.ts';
import type { AgentClient, Routine } from './wire-types.ts';

/**
 * The limit of one message, and of the lines kept per source while the server accepts nothing. The server counts the same
 * way.
 */
const MAX_BYTES = 1024 * 1024;
/** The limit of all sources together. With many sources each gets less. */
const MAX_ALL_BYTES = 16 * MAX_BYTES;
const MIN_BYTES = 128 * 1024;
/** The share of a source's kept lines that belongs to its beginning. */
const HEAD_SHARE = 1 / 4;
const LINE_OVERHEAD = 21;
const LONGEST_LINE = 32 * 1024;
const FLUSH_MS = 250;
const PATIENCE_MS = 5_000;

interface Line {
  /** The position among all lines of all sources. */
  order: number;
  /** The position among the lines of its source. The server stores each once, however often it is sent. */
  number: number;
  createdAt: number;
  level: Log_Level;
  output: string;
  bytes: number;
  /** The number of lines it represents: more than 1 for a note about left-out lines. */
  count: number;
}

/** A queue of lines that knows its size. */
class Lines {
  #lines: Line[] = [];
  /** The index of the first line. Lines before it are gone. */
  #first = 0;
  bytes = 0;

  get first(): Line | undefined {
    return this.#lines[this.#first];
  }

  get all(): Line[] {
    return this.#lines.slice(this.#first);
  }

  push(line: Line): void {
    this.#lines.push(line);
    this.bytes += line.bytes;
  }

  shift(): Line | undefined {
    const line = this.first;
    if (!line) return undefined;
    this.#first++;
    this.bytes -= line.bytes;
    // Not one by one: shifting a long array is slow.
    if (this.#first > 1024 && this.#first * 2 > this.#lines.length) {
      this.#lines = this.all;
      this.#first = 0;
    }
    return line;
  }
}

/**
 * The waiting lines of one source. If there are too many, the middle goes, so that the beginning and end of a long
 * output stay.
 */
class Source {
  readonly id: Uint8Array;
  /** The number of lines so far. */
  count = 0;
  /** All waiting lines, or those before the gap. */
  #head = new Lines();
  /** The lines after the gap. */
  #tail = new Lines();
  /** Represents the lines that were left out. */
  #gap: Line | undefined;
  /** The size of the lines that were taken out and that the server has not acknowledged. */
  bytesUnderWay = 0;
  /** Callbacks of writers that are held back. */
  waiting: (() => void)[] = [];

  constructor(id: Uint8Array) {
    this.id = id;
  }

  get bytes(): number {
    return this.#head.bytes + this.#tail.bytes;
  }

  get oldest(): Line | undefined {
    return this.#head.first ?? this.#gap;
  }

  add(line: Line): void {
    (this.#gap ? this.#tail : this.#head).push(line);
  }

  /** Leaves out middle lines until at most `limit` bytes wait. */
  cut(limit: number): void {
    if (this.bytes <= limit) return;
    if (!this.#gap) {
      const lines = this.#head.all;
      this.#head = new Lines();
      for (const line of lines) {
        const head = !this.#tail.first && this.#head.bytes + line.bytes <= limit * HEAD_SHARE;
        (head ? this.#head : this.#tail).push(line);
      }
    }
    while (this.bytes > limit) {
      const line = this.#tail.shift();
      if (!line) return;
      this.#gap = gapOf((this.#gap?.count ?? 0) + line.count, line);
    }
  }

  /** Takes out the next lines for one message. */
  take(): Line[] {
    const taken: Line[] = [];
    let size = 0;
    for (let next = this.oldest; next && (size === 0 || size + next.bytes <= MAX_BYTES); next = this.oldest) {
      taken.push(next);
      size += next.bytes;
      if (next === this.#gap) this.#closeGap();
      else this.#head.shift();
    }
    this.bytesUnderWay = size;
    return taken;
  }

  /** Puts back lines whose sending failed, for the next attempt. */
  putBack(lines: Line[]): void {
    const waiting = [...this.#head.all, ...(this.#gap ? [this.#gap] : []), ...this.#tail.all];
    this.#head = new Lines();
    this.#tail = new Lines();
    this.#gap = undefined;
    this.bytesUnderWay = 0;
    for (const line of lines) this.add(line);
    for (const line of waiting) this.add(line);
  }

  release(): void {
    for (const resume of this.waiting.splice(0)) resume();
  }

  #closeGap(): void {
    this.#gap = undefined;
    this.#head = this.#tail;
    this.#tail = new Lines();
  }
}

/** Returns the note about `count` lines that were left out. `last` is the last of them. */
function gapOf(count: number, last: Line): Line {
  const output = `[${count} lines left out: the server did not accept them in time]`;
  return { ...last, level: Log_Level.WARN, output, bytes: output.length + LINE_OVERHEAD, count };
}

export interface LogSender {
  /** Queues one line. Never blocks and never fails. */
  add(sourceId: Uint8Array, level: Log_Level, output: string): void;
  /**
   * Undefined if a source may write on. Otherwise much of it waits, and the promise resolves when it may write on. If
   * the server accepts nothing for a while, writers are not held back: excess lines are left out, counted, and replaced
   * by a note.
   */
  room(sourceId: Uint8Array): Promise<void> | undefined;
  /** Sets whether this connection's server accepts line numbers. Upstream servers do not use them. */
  setNumbered(value: boolean): void;
  /** Resolves when the server has received everything queued so far. */
  flush(): Promise<void>;
  run: Routine;
}

/**
 * Sends log lines to the server, in batches per source. The next connection sends lines again that a lost one did not
 * deliver.
 */
export function createLogSender(patienceMs = PATIENCE_MS): LogSender {
  return new BatchSender(patienceMs);
}

class BatchSender implements LogSender {
  readonly #patienceMs: number;
  readonly #sources = new Map<string, Source>();
  /** Identifies who numbers the lines. A new process, or an agent that started over, numbers from the beginning. */
  readonly #life = crypto.randomUUID();
  readonly #added = new Notifier();
  #numbered = false;
  /** The number of lines so far. */
  #order = 0;
  #flushers: { upTo: number; resolve: () => void }[] = [];
  /** The server has rejected all further logs. */
  #silenced = false;
  /** The server has accepted nothing for so long that no writer waits for it. */
  #stalled = false;
  #patience: NodeJS.Timeout | undefined;

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  setNumbered(value: boolean): void {
    this.#numbered = value;
  }

  add(sourceId: Uint8Array, level: Log_Level, output: string): void {
    if (this.#silenced) return;
    const to = this.#source(sourceId);
    const bytes = Buffer.byteLength(output) + LINE_OVERHEAD;
    to.add({ order: ++this.#order, number: ++to.count, createdAt: Date.now(), level, output, bytes, count: 1 });
    if (this.#stalled) to.cut(this.#share);
    this.#added.notify();
  }

  room(sourceId: Uint8Array): Promise<void> | undefined {
    if (this.#silenced || this.#stalled) return undefined;
    const from = this.#source(sourceId);
    if (this.#hasRoom(from)) return undefined;
    this.#awaitProgress();
    return new Promise((resolve) => from.waiting.push(resolve));
  }

  flush(): Promise<void> {
    return new Promise((resolve) => {
      this.#flushers.push({ upTo: this.#order, resolve });
      this.#added.notify();
    });
  }

  readonly run: Routine = async (client, signal) => {
    for (;;) {
      // In turn: a source that writes without end must not starve the others.
      for (const from of this.#sources.values()) if (from.oldest) await this.#sendBatch(from, client, signal);
      this.#settle();
      if (this.#isUrgent) continue;
      await this.#added.wait(signal);
      // Gather lines for a moment, unless somebody waits for them.
      const until = performance.now() + FLUSH_MS;
      for (let left = FLUSH_MS; !this.#isUrgent && left > 0; left = until - performance.now()) {
        await this.#added.wait(signal, left);
      }
    }
  };

  #source(id: Uint8Array): Source {
    const key = Buffer.from(id).toString('hex');
    let found = this.#sources.get(key);
    if (!found) {
      found = new Source(id);
      this.#sources.set(key, found);
    }
    return found;
  }

  /** The bytes that one source may keep. */
  get #share(): number {
    return Math.max(MIN_BYTES, Math.min(MAX_BYTES, MAX_ALL_BYTES / this.#sources.size));
  }

  /** One message may be under way while the next is gathered. */
  #hasRoom({ bytes, bytesUnderWay }: Source): boolean {
    return bytes + bytesUnderWay <= 2 * this.#share;
  }

  get #isUrgent(): boolean {
    return this.#flushers.length > 0 || [...this.#sources.values()].some(({ bytes }) => bytes >= this.#share);
  }

  async #sendBatch(from: Source, client: AgentClient, signal: AbortSignal): Promise<void> {
    const lines = from.take();
    const logs = lines.map(({ createdAt, level, output }) => ({
      createdAt: timestampFromMs(createdAt),
      level,
      output,
    }));
    try {
      const metadata = this.#numbered ? this.#numbers(lines) : {};
      const request = { logSourceId: from.id, logs };
      const { logLimitExceeded } = await client.batchCreateLogs(request, { signal, metadata });
      this.#silenced = logLimitExceeded;
    } catch (err) {
      from.putBack(lines);
      if (this.#stalled) from.cut(this.#share);
      throw err;
    }
    from.bytesUnderWay = 0;
    this.#progress();
  }

  #numbers(lines: Line[]): Record<string, string> {
    const numbers = lines.map(({ number }) => ({ origin: this.#life, sequence: number }));
    return { [LOG_SEQUENCE_KEY]: formatLogNumbers(numbers) };
  }

  /** Releases the writers that are held back if the server accepts nothing for a while. */
  #awaitProgress(): void {
    this.#patience ??= setTimeout(() => {
      this.#patience = undefined;
      this.#stalled = true;
      for (const from of this.#sources.values()) {
        from.cut(this.#share);
        from.release();
      }
    }, this.#patienceMs).unref();
  }

  /** The server has accepted lines. */
  #progress(): void {
    this.#stalled = false;
    clearTimeout(this.#patience);
    this.#patience = undefined;
    for (const from of this.#sources.values()) {
      if (this.#silenced || this.#hasRoom(from)) from.release();
      else if (from.waiting.length > 0) this.#awaitProgress();
    }
    if (this.#silenced) this.#sources.clear();
    this.#settle();
  }

  /** Resolves the promises of flushes whose lines the server has received. */
  #settle(): void {
    const oldest = Math.min(...[...this.#sources.values()].map((from) => from.oldest?.order ?? Infinity));
    const due = this.#flushers.filter(({ upTo }) => upTo < oldest);
    this.#flushers = this.#flushers.filter(({ upTo }) => upTo >= oldest);
    for (const { resolve } of due) resolve();
  }
}

/**
 * Splits a stream of bytes into lines: removes CR before the newline, replaces invalid UTF-8, and splits long lines.
 */
export class LineSplitter {
  readonly #line: (line: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';

  constructor(line: (line: string) => void) {
    this.#line = line;
  }

  push(chunk: Buffer): void {
    this.#split(this.#decoder.write(chunk));
  }

  end(): void {
    this.#split(this.#decoder.end());
    if (this.#rest !== '') this.#emit(this.#rest);
    this.#rest = '';
  }

  #split(text: string): void {
    const lines = text.split('\n');
    lines[0] = this.#rest + lines[0]!;
    this.#rest = lines.pop()!;
    for (const line of lines) this.#emit(line);
    while (this.#rest.length > LONGEST_LINE) {
      this.#emit(this.#rest.slice(0, LONGEST_LINE));
      this.#rest = this.#rest.slice(LONGEST_LINE);
    }
  }

  #emit(line: string): void {
    const bare = (line.endsWith('\r') ? line.slice(0, -1) : line).replaceAll('\0', '\uFFFD');
    if (bare.length <= LONGEST_LINE) this.#line(bare);
    else for (let at = 0; at < bare.length; at += LONGEST_LINE) this.#line(bare.slice(at, at + LONGEST_LINE));
  }
}
