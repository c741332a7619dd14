import { StringDecoder } from 'node:string_decoder';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Log_Level } from '@platform/wire/proto/agent';
import { Notifier } from './notifier.ts';
import type { Routine } from './wire-types.ts';

/** Of one message, and of what waits per source. The server counts as we do. */
const MAX_BYTES = 1024 * 1024;
const LINE_OVERHEAD = 21;
const LONGEST_LINE = 32 * 1024;
const FLUSH_MS = 250;

interface Line {
  createdAt: Date;
  level: Log_Level;
  output: string;
  bytes: number;
}

/** What waits of one source. Where it grows too long the oldest go, so that the end of a long output is always told. */
class Source {
  readonly id: Uint8Array;
  #lines: Line[] = [];
  /** Where the first line that still waits is; those before it are gone or under way. */
  #first = 0;
  #bytes = 0;
  #dropped = 0;

  constructor(id: Uint8Array) {
    this.id = id;
  }

  get waits(): boolean {
    return this.#first < this.#lines.length;
  }

  add(line: Line): void {
    this.#lines.push(line);
    this.#bytes += line.bytes;
    while (this.#bytes > MAX_BYTES) {
      this.#shift();
      this.#dropped++;
    }
  }

  /** The next lines for one message, taken out; what was dropped before them is named in its place. */
  take(): Line[] {
    const taken: Line[] = [];
    let size = 0;
    if (this.#dropped > 0) {
      const output = `[${this.#dropped} lines left out: they came faster than the server took them]`;
      taken.push({ createdAt: new Date(), level: Log_Level.WARN, output, bytes: output.length + LINE_OVERHEAD });
      size = taken[0]!.bytes;
      this.#dropped = 0;
    }
    while (this.waits && (size === 0 || size + this.#lines[this.#first]!.bytes <= MAX_BYTES)) {
      const line = this.#shift();
      taken.push(line);
      size += line.bytes;
    }
    return taken;
  }

  /** Lines whose sending failed, for the next attempt. */
  putBack(lines: Line[]): void {
    const waiting = this.#lines.slice(this.#first);
    this.#lines = [];
    this.#first = 0;
    this.#bytes = 0;
    for (const line of [...lines, ...waiting]) this.add(line);
  }

  #shift(): Line {
    const line = this.#lines[this.#first]!;
    this.#first++;
    this.#bytes -= line.bytes;
    // not one by one: a long array is slow to shift
    if (this.#first > 1024 && this.#first * 2 > this.#lines.length) {
      this.#lines = this.#lines.slice(this.#first);
      this.#first = 0;
    }
    return line;
  }
}

export interface LogSender {
  /** Queues one line. Never blocks and never fails: what exceeds the memory goes from the front, counted and named. */
  add(sourceId: Uint8Array, level: Log_Level, output: string): void;
  /** Resolves when everything queued so far has been taken by the server. */
  flush(): Promise<void>;
  run: Routine;
}

/** Log lines towards the server, in batches per source. Lines that a connection lost are sent again by the next. */
export function createLogSender(): LogSender {
  const sources = new Map<string, Source>();
  const added = new Notifier();
  let flushers: (() => void)[] = [];
  let silenced = false;

  const source = (id: Uint8Array): Source => {
    const key = Buffer.from(id).toString('hex');
    let found = sources.get(key);
    if (!found) {
      found = new Source(id);
      sources.set(key, found);
    }
    return found;
  };

  const sendBatch: (from: Source, ...args: Parameters<Routine>) => Promise<void> = async (from, client, signal) => {
    const lines = from.take();
    const logs = lines.map(({ createdAt, level, output }) => ({
      createdAt: timestampFromDate(createdAt),
      level,
      output,
    }));
    try {
      const { logLimitExceeded } = await client.batchCreateLogs({ logSourceId: from.id, logs }, { signal });
      if (!logLimitExceeded) return;
    } catch (err) {
      from.putBack(lines);
      throw err;
    }
    silenced = true;
    sources.clear();
  };

  return {
    add(sourceId, level, output) {
      if (silenced) return;
      source(sourceId).add({
        createdAt: new Date(),
        level,
        output,
        bytes: Buffer.byteLength(output) + LINE_OVERHEAD,
      });
      added.notify();
    },
    flush() {
      return new Promise((resolve) => {
        flushers.push(resolve);
        added.notify();
      });
    },
    async run(client, signal) {
      for (;;) {
        const waiting = flushers;
        flushers = [];
        try {
          for (const from of sources.values()) while (from.waits) await sendBatch(from, client, signal);
        } catch (err) {
          flushers.push(...waiting);
          throw err;
        }
        for (const resolve of waiting) resolve();
        await added.wait(signal);
        // Gather what comes in a moment, unless somebody waits for it.
        const until = performance.now() + FLUSH_MS;
        for (let left = FLUSH_MS; flushers.length === 0 && left > 0; left = until - performance.now()) {
          await added.wait(signal, left);
        }
      }
    },
  };
}

/** Cuts a stream of bytes into lines: CR before the newline goes, invalid UTF-8 is replaced, long lines are cut up. */
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
