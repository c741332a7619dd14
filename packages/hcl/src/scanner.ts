import type { Range } from './ast.ts';

export class HclSyntaxError extends Error {
  readonly line: number;
  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

// HCL identifiers as in Go: a letter or underscore, then letters, digits, marks, underscores and hyphens.
const IDENTIFIER = /[\p{ID_Start}_][\p{ID_Continue}-]*/uy;
const NUMBER = /\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/y;

/** A position in one source, with the operations that all parts of the grammar share. */
export class Scanner {
  readonly source: string;
  /** The end of reading: the source's or a heredoc's. */
  limit: number;
  pos = 0;
  readonly #lines: number[] = [0];

  constructor(source: string) {
    this.source = source;
    this.limit = source.length;
    for (let i = source.indexOf('\n'); i >= 0; i = source.indexOf('\n', i + 1)) this.#lines.push(i + 1);
    if (source.startsWith('\uFEFF')) this.pos = 1;
  }

  lineAt(offset: number): number {
    let low = 0;
    let high = this.#lines.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#lines[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return low + 1;
  }

  range(start: number): Range {
    return { start, end: this.pos, line: this.lineAt(start) };
  }

  fail(message: string, at = this.pos): never {
    throw new HclSyntaxError(message, this.lineAt(Math.min(at, this.source.length)));
  }

  get atEnd(): boolean {
    return this.pos >= this.limit;
  }

  /** The character at this position. Empty at the end. */
  get char(): string {
    return this.pos < this.limit ? this.source[this.pos]! : '';
  }

  at(text: string): boolean {
    return this.pos + text.length <= this.limit && this.source.startsWith(text, this.pos);
  }

  /** Consumes the text if it is here. */
  take(text: string): boolean {
    if (!this.at(text)) return false;
    this.pos += text.length;
    return true;
  }

  /** Describes the text at this position, for an error message. */
  here(): string {
    if (this.atEnd) return 'the end';
    if (this.char === '\n') return 'the end of the line';
    return JSON.stringify(/^(?:[\w-]+|.)/u.exec(this.source.slice(this.pos, this.pos + 40))?.[0] ?? this.char);
  }

  expect(text: string, where: string): void {
    if (!this.take(text)) this.fail(`Expected ${JSON.stringify(text)} ${where}, found ${this.here()}.`);
  }

  /** Skips blanks and comments. With `newlines` also newlines, which end things only outside brackets. */
  skip(newlines: boolean): void {
    for (;;) {
      const c = this.char;
      if (c === ' ' || c === '\t' || c === '\r' || (newlines && c === '\n')) this.pos++;
      else if (c === '#' || this.at('//')) this.#toLineEnd();
      else if (this.at('/*')) {
        const end = this.source.indexOf('*/', this.pos + 2);
        if (end < 0 || end + 2 > this.limit) this.fail('A comment is not closed.');
        this.pos = end + 2;
      } else return;
    }
  }

  #toLineEnd(): void {
    const end = this.source.indexOf('\n', this.pos);
    this.pos = end < 0 || end > this.limit ? this.limit : end;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.pos;
    const match = pattern.exec(this.source);
    if (!match || this.pos + match[0].length > this.limit) return undefined;
    this.pos += match[0].length;
    return match[0];
  }

  identifier(): string | undefined {
    return this.#match(IDENTIFIER);
  }

  number(): number | undefined {
    const text = this.#match(NUMBER);
    return text === undefined ? undefined : Number(text);
  }

  /** The identifier at this position, not consumed. */
  peekIdentifier(): string | undefined {
    const start = this.pos;
    const name = this.identifier();
    this.pos = start;
    return name;
  }
}
