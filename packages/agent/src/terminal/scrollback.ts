const NEWLINE = 0x0a;
/** A longer line may be cut in the middle. */
const LONGEST_LINE = 64 * 1024;
/**
 * Matches queries that make a terminal answer: device attributes and status, cursor position, colors, settings. If
 * replayed, the viewer's terminal would type its answers into the shell.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals are spoken to in control characters
const QUERIES = /\x1b\[[>=?]?[0-9;]*(?:c|n|\$p|x)|\x1bZ|\x1b\][0-9;]*\?(?:\x07|\x1b\\)|\x1bP[+$]q[^\x1b]{0,256}\x1b\\/g;

/** Keeps the newest output of a terminal, up to a number of bytes. */
export class Scrollback {
  readonly #most: number;
  #chunks: Buffer[] = [];
  #size = 0;
  #cut = false;

  constructor(most: number) {
    this.#most = most;
  }

  add(chunk: Buffer): void {
    // Join small pieces: as a list they would need more memory than their content.
    const last = this.#chunks.at(-1);
    if (last && last.length + chunk.length <= 4_096)
      this.#chunks[this.#chunks.length - 1] = Buffer.concat([last, chunk]);
    else this.#chunks.push(Buffer.from(chunk));
    this.#size += chunk.length;
    while (this.#size > this.#most) {
      const first = this.#chunks[0]!;
      const over = this.#size - this.#most;
      this.#cut = true;
      if (first.length <= over) {
        this.#chunks.shift();
        this.#size -= first.length;
      } else {
        this.#chunks[0] = first.subarray(over);
        this.#size -= over;
      }
    }
  }

  /** Returns what a new viewer sees, at most `most` bytes: from the start of a line, without terminal queries. */
  replay(most = this.#most): Buffer {
    let all = Buffer.concat(this.#chunks, this.#size);
    if (this.#cut || all.length > most) {
      all = all.subarray(Math.max(0, all.length - most));
      const line = all.subarray(0, LONGEST_LINE).indexOf(NEWLINE);
      all = all.subarray(line + 1);
    }
    const text = all.toString('latin1');
    return text.includes('\x1b') ? Buffer.from(text.replace(QUERIES, ''), 'latin1') : all;
  }
}
