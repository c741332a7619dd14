import type { Expr } from '../ast.ts';
import { force, type Term } from '../lazy.ts';
import { parseExpression } from '../parser.ts';
import type { BodyInstance, ModuleInstance } from '../program/instances.ts';
import { expressionsOf, traversals } from '../references.ts';
import { EvaluationError, Unknown, type Value, whollyKnown } from '../values.ts';

/** Something that an expression refers to, or that stands behind what it refers to. */
interface Reference {
  module: ModuleInstance;
  /** As the module writes it: `data.coder_parameter.x`. */
  address: string;
  /** Its value, as far as it is read. Undefined if it has none. */
  value(): Value | undefined;
}

/** An expression and where it is written. */
export interface Written {
  module: ModuleInstance;
  evaluate: (expr: Expr) => Term;
  expr: Expr;
}

/** What a search follows besides locals, variables of called modules and outputs: `blocks` means arguments of blocks. */
type Follow = 'values' | 'blocks';

function* referencesBehind(start: readonly Written[], follow: Follow): Generator<Reference> {
  const open = [...start];
  const expanded = new Set<string>();
  // the list grows while it is read
  for (const written of open)
    for (const { expr, address } of traversals(written.expr)) {
      const { module } = written;
      yield { module, address, value: () => valueFor(written, expr, address) };
      const key = module.inside(address);
      if (expanded.has(key)) continue;
      expanded.add(key);
      open.push(...behind(module, address, follow));
    }
}

function valueFor({ evaluate }: Written, expr: Expr, address: string): Value | undefined {
  const known = (one: Expr): Value | undefined => {
    try {
      return force(evaluate(one));
    } catch (err) {
      if (!(err instanceof EvaluationError)) throw err;
      return undefined;
    }
  };
  // what an unknown index depends on is another reference
  for (let at = expr; at.kind === 'attribute' || at.kind === 'index' || at.kind === 'splat'; at = at.on)
    if (at.kind === 'index' && known(at.key) instanceof Unknown) return undefined;
  // a name of a for expression has a value only there: then the whole thing counts
  const whole = parseExpression(address).expr;
  return known(expr) ?? (whole && known(whole));
}

/** The expressions that decide the value at an address. `follow` says whether arguments of blocks count. */
export function behind(module: ModuleInstance, address: string, follow: Follow): Written[] {
  const [root, name = '', third] = address.split('.');
  const { locals, modules, data, resources } = module.configuration;
  const here = (expr: Expr): Written => inModule(module, expr);
  const local = root === 'local' ? locals.get(name) : undefined;
  if (local) return [here(local)];
  if (root === 'var') return argumentOf(module, name);
  if (root === 'module') {
    const call = modules.get(name)?.body;
    const counts = [call?.attributes.get('count'), call?.attributes.get('for_each')];
    return [
      ...counts.flatMap((attribute) => (attribute ? [here(attribute.value)] : [])),
      ...outputsOf(module, name, third),
    ];
  }
  if (follow !== 'blocks') return [];
  const block = root === 'data' ? data.get(name)?.get(third ?? '') : resources.get(root!)?.get(name);
  return block ? [...expressionsOf(block.body)].map(here) : [];
}

function argumentOf({ call }: ModuleInstance, name: string): Written[] {
  const argument = call?.written(name);
  if (!call || !argument) return [];
  return [writtenIn(call, argument.value)];
}

function outputsOf(caller: ModuleInstance, name: string, output: string | undefined): Written[] {
  return childrenOf(caller, name).flatMap((module) => {
    const outputs = [...module.configuration.outputs].filter(([label]) => output === undefined || label === output);
    return outputs.flatMap(([, { body }]) => {
      const expr = body.attributes.get('value')?.value;
      return expr ? [inModule(module, expr)] : [];
    });
  });
}

function childrenOf(caller: ModuleInstance, name: string): ModuleInstance[] {
  try {
    return caller.childrenOf(name);
  } catch (err) {
    if (!(err instanceof EvaluationError)) throw err;
    return [];
  }
}

/** An expression of a module outside blocks with names for their instances. */
const inModule = (module: ModuleInstance, expr: Expr): Written => ({
  module,
  evaluate: (one) => module.evaluate(one),
  expr,
});

export const writtenIn = (body: BodyInstance, expr: Expr): Written => ({
  module: body.module,
  evaluate: (one) => body.evaluate(one),
  expr,
});

const MAX_CAUSES = 5;
const isUnknown = (value: Value | undefined): boolean => value !== undefined && !whollyKnown(value);

/** The addresses because of which expressions have no value before Terraform runs. */
export function unknownBehind(exprs: readonly Written[]): string[] {
  const found = new Set<string>();
  for (const { module, address, value } of referencesBehind(exprs, 'values')) {
    if (found.size === MAX_CAUSES) break;
    const [root, name = ''] = address.split('.');
    const explained =
      root === 'local' ||
      (root === 'var' && module.call?.written(name) !== undefined) ||
      (root === 'module' && childrenOf(module, name).length > 0);
    if (explained) continue;
    if (isUnknown(value())) found.add(module.inside(address));
  }
  if (found.size > 0) return [...found];
  // something that refers to itself
  const direct = exprs.flatMap((written) =>
    traversals(written.expr)
      .filter(({ expr, address }) => isUnknown(valueFor(written, expr, address)))
      .map(({ address }) => written.module.inside(address)),
  );
  return [...new Set(direct)].slice(0, MAX_CAUSES);
}

/** Whether expressions depend on a variable that is declared as sensitive. */
export function isSensitive(exprs: readonly Written[]): boolean {
  for (const { module, address } of referencesBehind(exprs, 'blocks')) {
    const [root, name = ''] = address.split('.');
    const declared = root === 'var' ? module.configuration.variables.get(name) : undefined;
    const sensitive = declared?.body.attributes.get('sensitive')?.value;
    if (sensitive?.kind === 'literal' && sensitive.value === true) return true;
  }
  return false;
}
