import type { Diagnostic, Expr } from './ast.ts';
import { parseTemplate } from './parser.ts';

const MAX_LEVELS = 100;
const NOWHERE = { start: 0, end: 0, line: 1 };

/**
 * The expression that a value of a JSON file stands for: strings, and the names of objects, are templates. What is wrong
 * is added to `diagnostics`, and is null in the expression.
 */
export function jsonExpression(value: unknown, filename: string, diagnostics: Diagnostic[], level = 1): Expr {
  const inner = (item: unknown) => jsonExpression(item, filename, diagnostics, level + 1);
  const deepest = (items: Expr[]) => 1 + items.reduce((depth, item) => Math.max(depth, item.depth), 0);
  const literal = (of: string | number | boolean | null): Expr => ({
    kind: 'literal',
    value: of,
    range: NOWHERE,
    depth: 1,
  });
  if (level > MAX_LEVELS) {
    const message = `Nested deeper than ${MAX_LEVELS} levels.`;
    diagnostics.push({ severity: 'error', file: filename, line: 1, message });
    return literal(null);
  }
  if (typeof value === 'string') {
    const { expr, diagnostics: wrong } = parseTemplate(value, filename);
    diagnostics.push(...wrong);
    return expr ?? literal(null);
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
