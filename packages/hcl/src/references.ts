import type { Body, Expr, TemplatePart } from './ast.ts';

/** Returns the direct subexpressions, each with the names that are bound for it. */
function children(expr: Expr): { child: Expr; bound: readonly string[] }[] {
  const free = (...list: Expr[]) => list.map((child) => ({ child, bound: [] }));
  switch (expr.kind) {
    case 'wrap':
      return free(expr.value);
    case 'parens':
      return free(expr.inner);
    case 'template':
      return inParts(expr.parts, []);
    case 'tuple':
      return free(...expr.items);
    case 'object':
      return expr.items.flatMap(({ key, value }) => free(key, value));
    case 'for': {
      const inner = [expr.key, expr.value, expr.condition].filter((e) => e !== undefined);
      return [...free(expr.collection), ...inner.map((child) => ({ child, bound: namesOf(expr) }))];
    }
    case 'conditional':
      return free(expr.condition, expr.whenTrue, expr.whenFalse);
    case 'binary':
      return free(expr.left, expr.right);
    case 'unary':
      return free(expr.operand);
    case 'call':
      return free(...expr.args);
    case 'attribute':
      return free(expr.on);
    case 'index':
      return free(expr.on, expr.key);
    case 'splat':
      return free(expr.on, expr.each);
    default:
      return [];
  }
}

const namesOf = (e: { keyName: string | undefined; valueName: string }): string[] =>
  e.keyName === undefined ? [e.valueName] : [e.keyName, e.valueName];

function inParts(parts: TemplatePart[], bound: readonly string[]): { child: Expr; bound: readonly string[] }[] {
  return parts.flatMap((part) => {
    if (part.kind === 'interpolation') return [{ child: part.value, bound }];
    if (part.kind === 'if')
      return [{ child: part.condition, bound }, ...inParts(part.whenTrue, bound), ...inParts(part.whenFalse, bound)];
    if (part.kind !== 'for') return [];
    return [{ child: part.collection, bound }, ...inParts(part.body, [...bound, ...namesOf(part)])];
  });
}

/** Returns the names of a traversal from its root, `[]` for an index. Undefined if it does not start with a name. */
function traversal(expr: Expr): string[] | undefined {
  if (expr.kind === 'variable') return [expr.name];
  if (expr.kind === 'splat') return traversal(expr.on);
  if (expr.kind === 'attribute' || expr.kind === 'index') {
    const on = traversal(expr.on);
    return on && [...on, expr.kind === 'index' ? '[]' : expr.name];
  }
  return undefined;
}

const TWO = new Set(['var', 'local', 'each', 'count', 'path', 'terraform', 'self']);

/** Returns the address that a traversal refers to. Undefined if it is too short. */
function address(names: string[]): string | undefined {
  const [root] = names;
  // module.m["key"].out names the output after the index. Other addresses have no index there.
  if (root === 'module')
    return names
      .filter((name) => name !== '[]')
      .slice(0, 3)
      .join('.');
  const end = names.indexOf('[]');
  const plain = end < 0 ? names : names.slice(0, end);
  const length = root === 'data' || root === 'ephemeral' ? 3 : 2;
  if (plain.length < (TWO.has(root!) ? 2 : length)) return undefined;
  return plain.slice(0, length).join('.');
}

/** A part of an expression that refers to something, with the address of that. */
export interface Traversal {
  expr: Expr;
  address: string;
  /** The names after the address, `[]` for an index. */
  rest: string[];
}

function collect(expr: Expr, bound: ReadonlySet<string>, add: (found: Traversal) => void): void {
  const names = traversal(expr);
  if (names) {
    const found = bound.has(names[0]!) ? undefined : address(names);
    if (found !== undefined) {
      const named = names[0] === 'module' ? names.filter((name) => name !== '[]') : names;
      add({ expr, address: found, rest: named.slice(found.split('.').length) });
    }
    // The keys of its indexes are separate expressions.
    for (let at: Expr = expr; at.kind === 'attribute' || at.kind === 'index' || at.kind === 'splat'; at = at.on) {
      if (at.kind === 'index') collect(at.key, bound, add);
      if (at.kind === 'splat') collect(at.each, bound, add);
    }
    return;
  }
  for (const { child, bound: more } of children(expr))
    collect(child, more.length > 0 ? new Set([...bound, ...more]) : bound, add);
}

/** Returns the parts of an expression that refer to something, in order. */
export function traversals(expr: Expr): Traversal[] {
  const found: Traversal[] = [];
  collect(expr, new Set(), (one) => found.push(one));
  return found;
}

/**
 * Returns what an expression refers to, each once, in order: `var.y`, `local.z`, `coder_agent.main`,
 * `data.coder_parameter.x`, `module.m.out`. Leaves out indexes and further attributes.
 */
export function references(expr: Expr): string[] {
  return [...new Set(traversals(expr).map((one) => one.address))];
}

/**
 * Returns the references that decide whether an expression has a value, whatever other values are: not those in the
 * branches of a condition, in the elements of objects and lists, or behind `try`.
 */
export function certainReferences(expr: Expr): string[] {
  const out = new Set<string>();
  const visit = (one: Expr): void => {
    switch (one.kind) {
      case 'conditional':
        visit(one.condition);
        return;
      case 'for':
        visit(one.collection);
        return;
      case 'object':
      case 'tuple':
        return;
      case 'binary':
        visit(one.left);
        if (one.op !== '&&' && one.op !== '||') visit(one.right);
        return;
      case 'template':
        for (const part of one.parts) {
          if (part.kind === 'interpolation') visit(part.value);
          else if (part.kind === 'if') visit(part.condition);
          else if (part.kind === 'for') visit(part.collection);
        }
        return;
      case 'call':
        if (MAY_IGNORE_ARGUMENTS.has(one.name)) return;
        break;
    }
    if (traversal(one)) for (const found of references(one)) out.add(found);
    else for (const { child } of children(one)) visit(child);
  };
  visit(expr);
  return [...out];
}

const MAY_IGNORE_ARGUMENTS = new Set(['try', 'can', 'coalesce', 'lookup']);

/** All expressions of a block and its inner blocks. */
export function* expressionsOf({ attributes, blocks }: Body): Generator<Expr> {
  for (const { value } of attributes.values()) yield value;
  for (const { body } of blocks) yield* expressionsOf(body);
}

/** Returns what all expressions of a block and its inner blocks refer to, including `depends_on`. */
export function bodyReferences(body: Body): string[] {
  const out = new Set<string>();
  for (const attribute of body.attributes.values()) for (const name of references(attribute.value)) out.add(name);
  for (const block of body.blocks) {
    // A dynamic block's iterator is named like its label unless the block sets another name.
    const iterator = block.type === 'dynamic' ? block.labels[0] : undefined;
    for (const name of bodyReferences(block.body)) if (!iterator || !name.startsWith(`${iterator}.`)) out.add(name);
  }
  return [...out];
}
