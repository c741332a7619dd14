import type { Body, Diagnostic, Expr, ParsedFile } from './ast.ts';
import { ExpressionParser, newRoom, type Room } from './expressions.ts';
import { HclSyntaxError, type Scanner } from './scanner.ts';
import { readEscape } from './templates.ts';

export const MAX_SOURCE_BYTES = 4 * 1024 * 1024;

class Parser extends ExpressionParser {
  body(inBlock: boolean): Body {
    const s: Scanner = this.s;
    const body: Body = { attributes: new Map(), blocks: [] };
    for (;;) {
      s.skip(true);
      if (s.atEnd || (inBlock && s.char === '}')) return body;
      this.#item(body);
      s.skip(false);
      if (!s.atEnd && s.char !== '\n' && !(inBlock && s.char === '}'))
        s.fail(`Expected the end of the line, found ${s.here()}.`);
    }
  }

  #item(body: Body): void {
    const s: Scanner = this.s;
    const start = s.pos;
    const name = s.identifier();
    if (name === undefined) s.fail(`Expected an argument or a block, found ${s.here()}.`);
    s.skip(false);
    if (s.char === '=' && !s.at('==')) {
      s.pos++;
      s.skip(false);
      const value = this.nested(() => this.expression(false));
      if (body.attributes.has(name)) s.fail(`Argument ${JSON.stringify(name)} is set twice.`, start);
      body.attributes.set(name, { name, value, range: s.range(start) });
      return;
    }
    const labels: string[] = [];
    while (s.char !== '{') {
      const label = s.char === '"' ? this.#label() : s.identifier();
      if (label === undefined) s.fail(`Expected "=", a label or "{" after ${JSON.stringify(name)}, found ${s.here()}.`);
      labels.push(label);
      s.skip(false);
    }
    s.pos++;
    const inner = this.nested(() => this.body(true));
    s.expect('}', `to close block ${JSON.stringify(name)}`);
    body.blocks.push({ type: name, labels, body: inner, range: s.range(start) });
  }

  #label(): string {
    const s: Scanner = this.s;
    const start = s.pos++;
    let text = '';
    while (s.char !== '"') {
      if (s.atEnd || s.char === '\n') s.fail('A label is not closed.', start);
      if (s.at('${') || s.at('%{')) s.fail('A label cannot hold a template.');
      if (s.take('\\')) text += readEscape(s);
      else text += s.source[s.pos++];
    }
    s.pos++;
    return text;
  }
}

/** Runs a parse and turns a syntax error or an oversized source into diagnostics. */
function guarded<T>(
  source: string,
  filename: string,
  parse: (p: Parser) => T,
  room: Room = newRoom(),
): { value?: T; diagnostics: Diagnostic[] } {
  const error = (message: string, line: number): Diagnostic => ({ severity: 'error', message, file: filename, line });
  if (source.length > MAX_SOURCE_BYTES)
    return { diagnostics: [error(`The file is larger than ${MAX_SOURCE_BYTES / 1024 / 1024} MiB.`, 1)] };
  try {
    return { value: parse(new Parser(source, room)), diagnostics: [] };
  } catch (err) {
    if (!(err instanceof HclSyntaxError)) throw err;
    return { diagnostics: [error(err.message, err.line)] };
  }
}

/** Parses a file of native syntax. Never throws: the first problem is in `diagnostics`. */
export function parseHcl(source: string, filename: string, room?: Room): ParsedFile {
  const { value, diagnostics } = guarded(source, filename, (p) => p.body(false), room);
  return { filename, source, body: value ?? { attributes: new Map(), blocks: [] }, diagnostics };
}

/** Parses one expression on its own, as in `terraform console`. Newlines are white space. */
export function parseExpression(source: string, filename = '<expression>'): { expr?: Expr; diagnostics: Diagnostic[] } {
  const { value, diagnostics } = guarded(source, filename, (p) => {
    p.s.skip(true);
    const expr = p.expression(true);
    p.s.skip(true);
    if (!p.s.atEnd) p.s.fail(`Expected the end, found ${p.s.here()}.`);
    return expr;
  });
  return value ? { expr: value, diagnostics } : { diagnostics };
}

/** Parses text with `${ … }` and `%{ … }`, as in strings of JSON files: quotes and backslashes have no meaning. */
export function parseTemplate(
  source: string,
  filename = '<template>',
  room?: Room,
): { expr?: Expr; diagnostics: Diagnostic[] } {
  const { value, diagnostics } = guarded(source, filename, (p) => p.bareTemplate(), room);
  return value ? { expr: value, diagnostics } : { diagnostics };
}
