import { ownValue } from '@ropewalk/kit/own-value';
import type { Expr, TemplatePart } from './ast.ts';
import type { Scanner } from './scanner.ts';

/** A piece of a template: flat, with the trim marks still to be applied. */
export type Piece =
  | { kind: 'text'; text: string }
  | { kind: 'interpolation'; value: Expr; trimLeft: boolean; trimRight: boolean }
  | { kind: 'directive'; word: Directive; trimLeft: boolean; trimRight: boolean; line: number };

export type Directive =
  | { word: 'if'; condition: Expr }
  | { word: 'for'; keyName: string | undefined; valueName: string; collection: Expr }
  | { word: 'else' | 'endif' | 'endfor' };

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' };

/** Reads one backslash escape of a quoted template. The scanner stands after the backslash. */
export function readEscape(scanner: Scanner): string {
  const c = scanner.char;
  const simple = ownValue(ESCAPES, c);
  if (simple !== undefined) {
    scanner.pos++;
    return simple;
  }
  const digits = c === 'u' ? 4 : c === 'U' ? 8 : 0;
  const hex = scanner.source.slice(scanner.pos + 1, scanner.pos + 1 + digits);
  const code = Number.parseInt(hex, 16);
  if (digits === 0 || !new RegExp(`^[0-9a-fA-F]{${digits}}$`).test(hex) || code > 0x10ffff)
    scanner.fail(`\\${c} is not an escape: write \\n, \\r, \\t, \\", \\\\, \\uNNNN or \\UNNNNNNNN.`);
  scanner.pos += 1 + digits;
  return String.fromCodePoint(code);
}

/** Applies the trim marks (`~`): the text next to a mark loses its white space on that side. */
export function trim(pieces: Piece[]): Piece[] {
  const out = pieces.map((piece) => ({ ...piece }));
  for (const [i, piece] of pieces.entries()) {
    if (piece.kind === 'text') continue;
    const [before, behind] = [out[i - 1], out[i + 1]];
    if (piece.trimLeft && before?.kind === 'text') before.text = before.text.trimEnd();
    if (piece.trimRight && behind?.kind === 'text') behind.text = behind.text.trimStart();
  }
  return out;
}

/** Builds the tree of a template's flat, trimmed pieces: directives enclose the pieces between them. */
export function assemble(pieces: Piece[], fail: (message: string, line: number) => never): TemplatePart[] {
  interface Open {
    line: number;
    word: 'if' | 'for';
    parts: TemplatePart[];
    otherwise?: TemplatePart[];
    close(open: Open): TemplatePart;
  }
  const root: TemplatePart[] = [];
  const stack: Open[] = [];
  const current = () => {
    const open = stack.at(-1);
    return open ? (open.otherwise ?? open.parts) : root;
  };
  const take = (word: 'if' | 'for', end: string, line: number): Open => {
    const open = stack.at(-1);
    if (open?.word !== word) fail(`%{ ${end} } has no %{ ${word} } before it.`, line);
    return open!;
  };
  for (const piece of pieces) {
    if (piece.kind === 'text') {
      if (piece.text !== '') current().push(piece);
    } else if (piece.kind === 'interpolation') current().push({ kind: 'interpolation', value: piece.value });
    else {
      const { word: directive, line } = piece;
      if (directive.word === 'if')
        stack.push({
          line,
          word: 'if',
          parts: [],
          close: (o) => ({
            kind: 'if',
            condition: directive.condition,
            whenTrue: o.parts,
            whenFalse: o.otherwise ?? [],
          }),
        });
      else if (directive.word === 'for') {
        const { keyName, valueName, collection } = directive;
        const close = (o: Open): TemplatePart => ({ kind: 'for', keyName, valueName, collection, body: o.parts });
        stack.push({ line, word: 'for', parts: [], close });
      } else if (directive.word === 'else') {
        const open = take('if', 'else', line);
        if (open.otherwise) fail('%{ else } comes twice.', line);
        open.otherwise = [];
      } else {
        const open = take(directive.word === 'endif' ? 'if' : 'for', directive.word, line);
        stack.pop();
        current().push(open.close(open));
      }
      if (stack.length > 100) fail('Template directives are nested too deeply.', line);
    }
  }
  const open = stack.at(-1);
  if (open) fail(`%{ ${open.word} } is not closed.`, open.line);
  return root;
}

/**
 * Removes the common indentation of all lines of a `<<-` heredoc. A line whose preceding newline was trimmed away does
 * not count as a line and keeps its indentation. So does a blank line.
 */
export function flush(pieces: Piece[]): Piece[] {
  const starts: { piece: { text: string }; spaces: number }[] = [];
  let lineStart = true;
  let shared = Number.POSITIVE_INFINITY;
  for (const piece of pieces) {
    if (piece.kind !== 'text') {
      if (lineStart) shared = 0;
      lineStart = false;
      continue;
    }
    const blank = piece.text.endsWith('\n') && piece.text.trim() === '';
    if (lineStart && !blank) {
      const spaces = /^[ \t]*/.exec(piece.text)![0].length;
      starts.push({ piece, spaces });
      shared = Math.min(shared, spaces);
    }
    lineStart = piece.text.endsWith('\n');
  }
  if (Number.isFinite(shared)) for (const { piece } of starts) piece.text = piece.text.slice(shared);
  return pieces;
}

/** Reads the pieces of a quoted template. The scanner stands after the opening quote and ends after the closing one. */
export function quotedPieces(s: Scanner, start: number, sequence: () => Piece): Piece[] {
  const pieces = collect(s, sequence, () => {
    if (s.char === '"') return undefined;
    if (s.atEnd || s.char === '\n') s.fail('A string is not closed on its line.', start);
    return s.take('\\') ? readEscape(s) : s.source[s.pos++]!;
  });
  s.pos++;
  return pieces;
}

/** Reads the pieces of a heredoc, which ends at the scanner's limit and has no escapes. */
export function heredocPieces(s: Scanner, sequence: () => Piece): Piece[] {
  const pieces = collect(s, sequence, () => {
    if (s.atEnd) return undefined;
    if (s.at('\r\n')) s.pos++;
    return s.source[s.pos++]!;
  });
  // Terraform trims and unindents line by line.
  return pieces.flatMap((piece): Piece[] => {
    if (piece.kind !== 'text') return [piece];
    return (piece.text.match(/[^\n]*\n|[^\n]+/g) ?? []).map((text) => ({ kind: 'text', text }));
  });
}

/** Matches characters without a meaning in any template. */
const PLAIN = /[^$%"\\\r\n]+/y;

/** Collects text from `next` until it returns none, and the sequences in between. */
function collect(s: Scanner, sequence: () => Piece, next: () => string | undefined): Piece[] {
  const pieces: Piece[] = [];
  let text = '';
  for (;;) {
    if (s.take('$${')) text += '${';
    else if (s.take('%%{')) text += '%{';
    else if (s.at('${') || s.at('%{')) {
      if (text !== '') pieces.push({ kind: 'text', text });
      text = '';
      pieces.push(sequence());
    } else {
      PLAIN.lastIndex = s.pos;
      const run = s.atEnd ? undefined : PLAIN.exec(s.source)?.[0];
      const more = run === undefined ? next() : run.slice(0, s.limit - s.pos);
      if (more === undefined) break;
      text += more;
      if (run !== undefined) s.pos += more.length;
    }
  }
  if (text !== '') pieces.push({ kind: 'text', text });
  return pieces;
}
