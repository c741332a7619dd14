const NEWLINE = 0x0a;
/** How far a line may reach before the cut is made within it. */
const LONGEST_LINE = 64 * 1024;
/**
 * What asks a terminal for an answer: device attributes and status, cursor position, colours, settings. Played again,
 * the viewer's terminal would type its answers into the shell.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals are spoken to in control characters
const QUERIES = /\x1b\[[>=?]?[0-9;]*(?:c|n|\$p|x)|\x1bZ|\x1b\][0-9;]*\?(?:\x07|\x1b\\)|\x1bP[+$]q[^\x1b]{0,256}\x1b\\/g;

/** The newest output of a terminal, up to a number of bytes. */
export class Scrollback {
  readonly #most: number;
  #chunks: Buffer[] = [];
  #size = 0;
  #cut = false;

  constructor(most: number) {
    this.#most = most;
  }

  add(chunk: Buffer): void {
    // small pieces are joined: a list of them would weigh more than what they hold
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

  /**
   * What to show to a viewer who comes now, at most so many bytes: from the beginning of a line on, without questions
   * to the terminal.
   */
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
