import type { Diagnostic, Expr } from './ast.ts';
import type { Room } from './expressions.ts';
import { parseTemplate } from './parser.ts';

export const MAX_DIAGNOSTICS = 100;
const MAX_LEVELS = 100;
const NOWHERE = { start: 0, end: 0, line: 1 };

/**
 * Converts a value of a JSON file to an expression: strings and object names are templates. Adds problems to
 * `diagnostics` and replaces them with null.
 */
export function jsonExpression(
  value: unknown,
  filename: string,
  diagnostics: Diagnostic[],
  room: Room,
  level = 1,
): Expr {
  const inner = (item: unknown) => jsonExpression(item, filename, diagnostics, room, level + 1);
  const deepest = (items: Expr[]) => 1 + items.reduce((depth, item) => Math.max(depth, item.depth), 0);
  const literal = (of: string | number | boolean | null): Expr => ({
    kind: 'literal',
    value: of,
    range: NOWHERE,
    depth: 1,
  });
  const wrong = (message: string): Expr => {
    if (diagnostics.length < MAX_DIAGNOSTICS) diagnostics.push({ severity: 'error', file: filename, line: 1, message });
    return literal(null);
  };
  if (level > MAX_LEVELS) return wrong(`Nested deeper than ${MAX_LEVELS} levels.`);
  if (--room.nodes < 0) return wrong('There are too many expressions.');
  if (typeof value === 'string') {
    const { expr, diagnostics: found } = parseTemplate(value, filename, room);
    return expr ?? wrong(found[0]!.message);
  }
  if (typeof value === 'number' || typeof value === 'boolean') return literal(value);
  if (Array.isArray(value)) {
    const items = value.map(inner);
    return { kind: 'tuple', items, range: NOWHERE, depth: deepest(items) };
  }
  if (typeof value === 'object' && value !== null) {
    const items = Object.entries(value).map(([key, item]) => ({ key: inner(key), value: inner(item) }));
    return { kind: 'object', items, range: NOWHERE, depth: deepest(items.flatMap((one) => [one.key, one.value])) };
  }
  return literal(null);
}
