import type { BinaryOp, Expr, TemplatePart } from './ast.ts';
import { HclSyntaxError, Scanner } from './scanner.ts';
import { assemble, type Directive, flush, heredocPieces, type Piece, quotedPieces, trim } from './templates.ts';
import { count } from './values.ts';

/** The limit of nested brackets, blocks and interpolations, and of the levels of one expression. */
const MAX_NESTING = 100;
const MAX_DEPTH = 1000;

/** The binding strength of operators. */
const PRECEDENCE: Record<BinaryOp, number> = {
  '||': 0,
  '&&': 1,
  '==': 2,
  '!=': 2,
  '>=': 3,
  '<=': 3,
  '>': 3,
  '<': 3,
  '+': 4,
  '-': 4,
  '*': 5,
  '/': 5,
  '%': 5,
};
const OPERATOR = /\|\||&&|==|!=|>=|<=|[<>+\-*/%]/y;

/**
 * The limit of expression nodes in all files of a module together: each takes 200 bytes and two characters of source.
 */
const MAX_NODES = 300_000;

/** The remaining number of nodes. */
export interface Room {
  nodes: number;
}
export const newRoom = (): Room => ({ nodes: MAX_NODES });

/** The fields of a kind of node, except range and depth. */
type Fields<K extends Expr['kind']> = Omit<Extract<Expr, { kind: K }>, 'kind' | 'range' | 'depth'>;

/** Parses expressions. The file parser builds on it. */
export class ExpressionParser {
  readonly s: Scanner;
  readonly #room: Room;
  #nesting = 0;

  constructor(source: string, room: Room) {
    this.s = new Scanner(source);
    this.#room = room;
  }

  nested<T>(parse: () => T): T {
    if (++this.#nesting > MAX_NESTING) this.s.fail(`Nested deeper than ${MAX_NESTING} levels.`);
    const out = parse();
    this.#nesting--;
    return out;
  }

  #node<K extends Expr['kind']>(kind: K, start: number, children: (Expr | undefined)[], fields: Fields<K>): Expr {
    let depth = 0;
    for (const child of children) if (child && child.depth > depth) depth = child.depth;
    if (depth >= MAX_DEPTH) this.s.fail(`An expression has more than ${MAX_DEPTH} levels.`, start);
    if (--this.#room.nodes < 0) this.s.fail(`There are more than ${count(MAX_NODES)} expressions.`, start);
    return { kind, ...fields, range: this.s.range(start), depth: depth + 1 } as unknown as Expr;
  }

  // --- expressions: `nl` allows newlines as white space ---

  expression(nl: boolean): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    const condition = this.#binary(0, nl);
    const end = s.pos;
    s.skip(nl);
    if (s.char !== '?') {
      s.pos = end; // So that no range includes the comment or the lines after it.
      return condition;
    }
    s.pos++;
    s.skip(nl);
    const whenTrue = this.nested(() => this.expression(nl));
    s.skip(nl);
    s.expect(':', 'in a conditional');
    s.skip(nl);
    const whenFalse = this.nested(() => this.expression(nl));
    return this.#node('conditional', start, [condition, whenTrue, whenFalse], { condition, whenTrue, whenFalse });
  }

  /** The operator at this position, not consumed. */
  #operator(): BinaryOp | undefined {
    const { source, pos } = this.s;
    if (this.s.atEnd) return undefined;
    OPERATOR.lastIndex = pos;
    return OPERATOR.exec(source)?.[0] as BinaryOp | undefined;
  }

  /** Parses operators that bind at least as tightly as `least`, by precedence climbing. */
  #binary(least: number, nl: boolean): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    let left = this.#unary(nl);
    for (;;) {
      const end = s.pos;
      s.skip(nl);
      const op = this.#operator();
      if (op === undefined || PRECEDENCE[op] < least) {
        s.pos = end;
        return left;
      }
      s.pos += op.length;
      s.skip(nl);
      const right = this.#binary(PRECEDENCE[op] + 1, nl);
      left = this.#node('binary', start, [left, right], { op, left, right });
    }
  }

  #unary(nl: boolean): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    const op = s.char;
    if (op !== '-' && op !== '!') return this.#postfix(nl);
    s.pos++;
    s.skip(nl);
    const operand = this.nested(() => this.#unary(nl));
    return this.#node('unary', start, [operand], { op, operand });
  }

  #postfix(nl: boolean): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    let expr = this.#primary(nl);
    for (;;) {
      const end = s.pos;
      s.skip(nl);
      const next = this.#step(expr, start, 'any');
      if (next === undefined) {
        s.pos = end;
        return expr;
      }
      expr = next;
    }
  }

  /** Parses one `.name`, `.0`, `[key]` or splat on an operand. Returns undefined if none follows. */
  #step(on: Expr, start: number, allowed: 'any' | 'attributes' | 'all'): Expr | undefined {
    const s: Scanner = this.s;
    if (s.char === '.' && !s.at('...')) {
      s.pos++;
      s.skip(false);
      if (allowed === 'any' && s.take('*')) return this.#splat(on, start, 'attributes');
      const name = s.identifier();
      if (name !== undefined) return this.#node('attribute', start, [on], { on, name });
      const at = s.pos;
      const digits = /\d+/y;
      digits.lastIndex = at;
      const number = digits.exec(s.source)?.[0];
      if (number === undefined) s.fail(`Expected an attribute's name after ".", found ${s.here()}.`);
      s.pos += number.length;
      const key = this.#node('literal', at, [], { value: Number(number) });
      return this.#node('index', start, [on, key], { on, key });
    }
    if (s.char !== '[' || allowed === 'attributes') return undefined;
    s.pos++;
    s.skip(true);
    if (s.take('*')) {
      s.skip(true);
      s.expect(']', 'to close a splat');
      return this.nested(() => this.#splat(on, start, 'all'));
    }
    const key = this.nested(() => this.expression(true));
    s.skip(true);
    s.expect(']', 'to close an index');
    return this.#node('index', start, [on, key], { on, key });
  }

  #splat(on: Expr, start: number, steps: 'attributes' | 'all'): Expr {
    const at = this.s.pos;
    let each = this.#node('item', at, [], {});
    for (;;) {
      const next = this.#step(each, at, steps);
      if (next === undefined) break;
      each = next;
    }
    return this.#node('splat', start, [on, each], { on, each });
  }

  #primary(nl: boolean): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    const c = s.char;
    if (c === '"') return this.#quoted();
    if (c === '(') {
      s.pos++;
      s.skip(true);
      const inner = this.nested(() => this.expression(true));
      s.skip(true);
      s.expect(')', 'to close a parenthesis');
      return this.#node('parens', start, [inner], { inner });
    }
    if (c === '[') return this.nested(() => this.#tuple());
    if (c === '{') return this.nested(() => this.#object());
    if (s.at('<<')) return this.#heredoc();
    if (c >= '0' && c <= '9') {
      const value = s.number()!;
      return this.#node('literal', start, [], { value });
    }
    let name = s.identifier();
    if (name === undefined) s.fail(`Expected an expression, found ${s.here()}.`);
    while (s.take('::')) name += `::${s.identifier() ?? s.fail('Expected a name after "::".')}`;
    const end = s.pos;
    s.skip(nl);
    if (s.char === '(') return this.nested(() => this.#call(name, start));
    s.pos = end;
    if (name === 'true' || name === 'false') return this.#node('literal', start, [], { value: name === 'true' });
    if (name === 'null') return this.#node('literal', start, [], { value: null });
    return this.#node('variable', start, [], { name });
  }

  #call(name: string, start: number): Expr {
    const s: Scanner = this.s;
    s.pos++;
    const args: Expr[] = [];
    let expand = false;
    for (;;) {
      s.skip(true);
      if (s.take(')')) break;
      args.push(this.expression(true));
      s.skip(true);
      if (s.take('...')) {
        expand = true;
        s.skip(true);
        s.expect(')', `after the last argument of ${name}`);
        break;
      }
      if (s.take(',')) continue;
      s.expect(')', `to close the arguments of ${name}`);
      break;
    }
    return this.#node('call', start, args, { name, args, expand });
  }

  #tuple(): Expr {
    const s: Scanner = this.s;
    const start = s.pos++;
    s.skip(true);
    if (s.peekIdentifier() === 'for') {
      const made = this.#for(start, ']');
      if (made) return made;
    }
    const items: Expr[] = [];
    for (;;) {
      s.skip(true);
      if (s.take(']')) break;
      items.push(this.expression(true));
      s.skip(true);
      if (s.take(',')) continue;
      s.expect(']', 'to close a list');
      break;
    }
    return this.#node('tuple', start, items, { items });
  }

  #object(): Expr {
    const s: Scanner = this.s;
    const start = s.pos++;
    s.skip(true);
    if (s.peekIdentifier() === 'for') {
      const made = this.#for(start, '}');
      if (made) return made;
    }
    const items: { key: Expr; value: Expr }[] = [];
    for (;;) {
      s.skip(true);
      if (s.take('}')) break;
      const key = this.#objectKey();
      s.skip(false);
      if (!s.take('=') && !s.take(':')) s.fail(`Expected "=" or ":" after a key, found ${s.here()}.`);
      s.skip(false);
      const value = this.expression(false);
      items.push({ key, value });
      s.skip(false);
      if (s.take(',') || s.char === '\n') continue;
      s.expect('}', 'to close an object');
      break;
    }
    return this.#node(
      'object',
      start,
      items.flatMap(({ key, value }) => [key, value]),
      { items },
    );
  }

  /** Parses an object key: a bare word is its own name, anything else is an expression. */
  #objectKey(): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    const word = s.identifier();
    if (word !== undefined) {
      const end = s.pos;
      s.skip(false);
      if (s.char === ':' || (s.char === '=' && !s.at('=='))) {
        s.pos = end;
        return this.#node('literal', start, [], { value: word });
      }
      s.pos = start;
    }
    return this.expression(false);
  }

  /** Parses `for` in brackets. Returns undefined and consumes nothing if the word is only a key or a name. */
  #for(start: number, close: ']' | '}'): Expr | undefined {
    const s: Scanner = this.s;
    const before = s.pos;
    s.pos += 3;
    s.skip(true);
    const names = this.#forNames();
    if (names === undefined) {
      s.pos = before;
      return undefined;
    }
    const collection = this.expression(true);
    s.skip(true);
    s.expect(':', 'after the collection of a for expression');
    s.skip(true);
    let value = this.expression(true);
    let key: Expr | undefined;
    let group = false;
    s.skip(true);
    if (close === '}') {
      s.expect('=>', 'between key and value of a for expression');
      s.skip(true);
      key = value;
      value = this.expression(true);
      s.skip(true);
      group = s.take('...');
      s.skip(true);
    }
    let condition: Expr | undefined;
    if (s.peekIdentifier() === 'if') {
      s.pos += 2;
      s.skip(true);
      condition = this.expression(true);
      s.skip(true);
    }
    s.expect(close, 'to close a for expression');
    const fields = { ...names, collection, key, value, group, condition };
    return this.#node('for', start, [collection, key, value, condition], fields);
  }

  #forNames(): { keyName: string | undefined; valueName: string } | undefined {
    const s: Scanner = this.s;
    const first = s.identifier();
    if (first === undefined) return undefined;
    s.skip(true);
    let second: string | undefined;
    if (s.take(',')) {
      s.skip(true);
      second = s.identifier() ?? s.fail(`Expected a name after ",", found ${s.here()}.`);
      s.skip(true);
    }
    if (s.peekIdentifier() !== 'in') s.fail(`Expected "in" in a for expression, found ${s.here()}.`);
    s.pos += 2;
    s.skip(true);
    return second === undefined ? { keyName: undefined, valueName: first } : { keyName: first, valueName: second };
  }

  // --- templates ---

  /** Parses the whole source as a template without quotes, as in strings of JSON files. */
  bareTemplate(): Expr {
    const start = this.s.pos;
    return this.#template(start, trim(heredocPieces(this.s, () => this.nested(() => this.#sequence()))));
  }

  #quoted(): Expr {
    const start = this.s.pos++;
    const pieces = quotedPieces(this.s, start, () => this.nested(() => this.#sequence()));
    return this.#template(start, trim(pieces));
  }

  #template(start: number, pieces: Piece[]): Expr {
    const [first] = pieces;
    if (first === undefined) return this.#node('literal', start, [], { value: '' });
    const texts = pieces.filter((piece) => piece.kind === 'text');
    if (texts.length === pieces.length)
      return this.#node('literal', start, [], { value: texts.map((piece) => piece.text).join('') });
    if (pieces.length === 1 && first.kind === 'text') return this.#node('literal', start, [], { value: first.text });
    if (pieces.length === 1 && first.kind === 'interpolation')
      return this.#node('wrap', start, [first.value], { value: first.value });
    const parts: TemplatePart[] = assemble(pieces, (message, line) => {
      throw new HclSyntaxError(message, line);
    });
    const inner = pieces.map((piece) => {
      if (piece.kind === 'interpolation') return piece.value;
      if (piece.kind !== 'directive') return undefined;
      const { word } = piece;
      return word.word === 'if' ? word.condition : word.word === 'for' ? word.collection : undefined;
    });
    // A directive adds a level for each enclosing one. assemble limits these.
    return this.#node('template', start, inner, { parts });
  }

  /** Parses `${ … }` or `%{ … }`. */
  #sequence(): Piece {
    const s: Scanner = this.s;
    const line = s.lineAt(s.pos);
    const directive = s.char === '%';
    s.pos += 2;
    const trimLeft = s.take('~');
    s.skip(true);
    const inner: Piece = directive
      ? { kind: 'directive', word: this.#directive(), trimLeft, trimRight: false, line }
      : { kind: 'interpolation', value: this.expression(true), trimLeft, trimRight: false };
    s.skip(true);
    inner.trimRight = s.take('~');
    s.expect('}', 'to close a template sequence');
    return inner;
  }

  #directive(): Directive {
    const s: Scanner = this.s;
    const word = s.identifier();
    s.skip(true);
    switch (word) {
      case 'if':
        return { word, condition: this.expression(true) };
      case 'for': {
        const names = this.#forNames() ?? s.fail(`Expected a name after "for", found ${s.here()}.`);
        return { word, ...names, collection: this.expression(true) };
      }
      case 'else':
      case 'endif':
      case 'endfor':
        return { word };
      default:
        return s.fail(`Unknown template directive ${JSON.stringify(word ?? '')}.`);
    }
  }

  #heredoc(): Expr {
    const s: Scanner = this.s;
    const start = s.pos;
    s.pos += 2;
    const flushed = s.take('-');
    const word = s.identifier();
    if (word === undefined) s.fail(`Expected a word after "<<", found ${s.here()}.`);
    s.take('\r');
    if (!s.take('\n')) s.fail(`Expected the end of the line after <<${word}, found ${s.here()}.`);
    const bodyStart = s.pos;
    // Blanks may surround the word.
    const closing = new RegExp(`^[^\\S\\n]*${word}[^\\S\\n]*$`, 'gmu');
    closing.lastIndex = bodyStart;
    const end = closing.exec(s.source);
    if (!end || end.index + end[0].length > s.limit) s.fail(`Heredoc <<${word} is not closed.`, start);
    const limit = s.limit;
    s.limit = end.index;
    const pieces = heredocPieces(s, () => this.nested(() => this.#sequence()));
    s.limit = limit;
    s.pos = end.index + end[0].length;
    const trimmed = trim(pieces);
    return this.#template(start, flushed ? flush(trimmed) : trimmed);
  }
}
