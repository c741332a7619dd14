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

interface Source {
  id: Uint8Array;
  lines: Line[];
  bytes: number;
  dropped: number;
}

export interface LogSender {
  /** Queues one line. Never blocks and never fails: what exceeds the memory is counted and named in its place. */
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
      found = { id, lines: [], bytes: 0, dropped: 0 };
      sources.set(key, found);
    }
    return found;
  };
  const push = (to: Source, level: Log_Level, output: string, bytes: number) => {
    to.lines.push({ createdAt: new Date(), level, output, bytes });
    to.bytes += bytes;
  };
  const nameDropped = (to: Source) => {
    if (to.dropped === 0) return;
    const text = `[${to.dropped} lines left out: they came faster than the server took them]`;
    to.dropped = 0;
    push(to, Log_Level.WARN, text, text.length + LINE_OVERHEAD);
  };

  const sendBatch: (from: Source, ...args: Parameters<Routine>) => Promise<void> = async (from, client, signal) => {
    let size = 0;
    let count = 0;
    for (const line of from.lines) {
      if (count > 0 && size + line.bytes > MAX_BYTES) break;
      size += line.bytes;
      count++;
    }
    const logs = from.lines.slice(0, count).map(({ createdAt, level, output }) => ({
      createdAt: timestampFromDate(createdAt),
      level,
      output,
    }));
    const { logLimitExceeded } = await client.batchCreateLogs({ logSourceId: from.id, logs }, { signal });
    from.lines.splice(0, count);
    from.bytes -= size;
    if (logLimitExceeded) {
      silenced = true;
      sources.clear();
    }
  };

  return {
    add(sourceId, level, output) {
      if (silenced) return;
      const to = source(sourceId);
      const bytes = Buffer.byteLength(output) + LINE_OVERHEAD;
      if (to.bytes + bytes > MAX_BYTES) to.dropped++;
      else {
        nameDropped(to);
        push(to, level, output, bytes);
      }
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
          for (const from of sources.values()) {
            while (from.lines.length > 0) await sendBatch(from, client, signal);
            nameDropped(from);
            while (from.lines.length > 0) await sendBatch(from, client, signal);
          }
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
