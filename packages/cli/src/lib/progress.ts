import { write } from '../framework/io.ts';
import { isTerminal, plainStyle, type Style, styleOf, widthOf } from '../framework/style.ts';
import { logText, oneLine, terminalText } from '../framework/terminal-text.ts';
import { elapsedTime, stageDuration } from './format.ts';
import { shorten, textWidth } from './table.ts';

/** The progress of work in stages, such as a build. Stages follow each other. */
export interface Progress {
  begin(stage: string): void;
  /** Why the stage waits. A reason with the key of the one before it is the same one in newer words. */
  wait(reason: string, key: string): void;
  /** A line of the stage's log. */
  log(line: string): void;
  end(outcome: 'done' | 'failed', tookMs: number): void;
  /** A line that belongs to no stage. */
  say(line: string): void;
  /** Removes what is not final from the screen. */
  close(): void;
}

type Output = NodeJS.WritableStream & { isTTY?: boolean; columns?: number };

const MARKS = { done: '✔', failed: '✘' } as const;

/** Shows progress in place in a terminal, and as lines elsewhere. */
export function showProgress(output: Output, env: NodeJS.ProcessEnv): Progress {
  return isTerminal(output, env)
    ? new LiveProgress(output, styleOf(output, env))
    : new PlainProgress((line) => write(output, `${line}\n`), plainStyle);
}

function endLine(style: Style, stage: string, outcome: 'done' | 'failed', tookMs: number): string {
  const mark = style(outcome === 'done' ? 'green' : 'red', MARKS[outcome]);
  return `==> ${mark} ${stage} ${style('dim', `[${stageDuration(tookMs)}]`)}`;
}

/** Every event is a line. */
class PlainProgress implements Progress {
  readonly #write: (line: string) => void;
  readonly #style: Style;
  #stage = '';
  /** The key of the last reason. */
  #reason = '';

  constructor(write: (line: string) => void, style: Style) {
    this.#write = write;
    this.#style = style;
  }

  begin(stage: string): void {
    this.#stage = oneLine(stage);
    this.#reason = '';
    this.#write(`==> ⧗ ${this.#stage}`);
  }

  wait(reason: string, key: string): void {
    if (key !== this.#reason) this.#write(`    ${reason}`);
    this.#reason = key;
  }

  log(line: string): void {
    this.#write(`    ${logText(line)}`);
  }

  end(outcome: 'done' | 'failed', tookMs: number): void {
    this.#write(endLine(this.#style, this.#stage, outcome, tookMs));
  }

  say(line: string): void {
    this.#write(line);
  }

  close(): void {}
}

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 100;
const MAX_REASON_LINES = 3;

/**
 * The last lines of the terminal are the live region: a spinner, the stage, its elapsed time, and why it waits. They
 * are drawn again in place. Lines that stay are written above them, in one write with the new region, so that nothing
 * comes in between. The cursor stays visible, at the end of the region: no signal can leave it hidden.
 */
class LiveProgress implements Progress {
  readonly #output: Output;
  readonly #style: Style;
  readonly #lines: PlainProgress;
  #stage: { name: string; since: number; isAnnounced: boolean } | undefined;
  #reason = '';
  /** The texts on the screen, without styles. */
  #drawn: string[] = [];
  #frame = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #onExit = () => this.close();

  constructor(output: Output, style: Style) {
    this.#output = output;
    this.#style = style;
    this.#lines = new PlainProgress((line) => this.#write(line), style);
  }

  begin(stage: string): void {
    this.#stage = { name: oneLine(stage), since: performance.now(), isAnnounced: false };
    this.#reason = '';
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => {
        this.#frame++;
        this.#draw();
      }, FRAME_MS).unref();
      process.once('exit', this.#onExit);
    }
    this.#draw();
  }

  wait(reason: string): void {
    this.#reason = terminalText(reason);
    this.#draw();
  }

  log(line: string): void {
    if (this.#stage && !this.#stage.isAnnounced) {
      this.#stage.isAnnounced = true;
      this.#lines.begin(this.#stage.name);
    }
    this.#lines.log(line);
  }

  end(outcome: 'done' | 'failed', tookMs: number): void {
    const { name = '' } = this.#stage ?? {};
    this.#stage = undefined;
    this.#write(endLine(this.#style, name, outcome, tookMs));
  }

  say(line: string): void {
    this.#write(line);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    process.off('exit', this.#onExit);
    this.#stage = undefined;
    this.#output.write(this.#erasing());
    this.#drawn = [];
  }

  #write(line: string): void {
    const erasing = this.#erasing();
    this.#drawn = [];
    this.#output.write(`${erasing}${terminalText(`${line}\n`)}${this.#drawing()}`);
  }

  #draw(): void {
    const erasing = this.#erasing();
    this.#output.write(erasing + this.#drawing());
  }

  /** Clears the region, also where a narrower terminal has wrapped its lines since. */
  #erasing(): string {
    if (this.#drawn.length === 0) return '';
    const width = widthOf(this.#output);
    const rows = this.#drawn.reduce((sum, line) => sum + Math.max(1, Math.ceil(textWidth(line) / width)), 0);
    return `\r${rows > 1 ? `\x1b[${rows - 1}A` : ''}\x1b[J`;
  }

  #drawing(): string {
    if (!this.#stage) return '';
    // the last column stays free: a full line makes some terminals wrap
    const width = Math.max(1, widthOf(this.#output) - 1);
    const elapsed = elapsedTime(performance.now() - this.#stage.since);
    const name = shorten(this.#stage.name, width - 4 - elapsed.length);
    const spinner = FRAMES[this.#frame % FRAMES.length]!;
    const reasons = breakLines(this.#reason, width - 4).map((line) => `    ${line}`);
    this.#drawn = [shorten(`${spinner} ${name}  ${elapsed}`, width), ...reasons];
    const styled = this.#drawn.map((line, i) =>
      i === 0
        ? line.replace(spinner, this.#style('cyan', spinner)).replace(elapsed, this.#style('dim', elapsed))
        : this.#style('yellow', line),
    );
    return terminalText(styled.join('\n'));
  }
}

function breakLines(text: string, width: number): string[] {
  if (text === '' || width < 1) return [];
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1)!;
    if (last === '') lines[lines.length - 1] = shorten(word, width);
    else if (textWidth(last) + 1 + textWidth(word) <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(shorten(word, width));
  }
  if (lines.length <= MAX_REASON_LINES) return lines;
  const shown = lines.slice(0, MAX_REASON_LINES);
  shown[MAX_REASON_LINES - 1] = shorten(`${shown.at(-1)}${' '.repeat(width)}`, width).replace(/ +…$/, '…');
  return shown;
}
