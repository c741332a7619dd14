import type { Body, Expr } from '../ast.ts';
import { spend } from '../evaluate.ts';
import { behind } from '../preview/behind.ts';
import type { ModuleInstance } from '../program/instances.ts';
import type { Program } from '../program/program.ts';
import { type Traversal, traversals } from '../references.ts';
import { EvaluationError } from '../values.ts';

/** The attributes of `coder_workspace` that differ between a start and a stop. */
const OF_TRANSITION = new Set(['transition', 'start_count']);
/** The longest chain of references that is followed. */
const MAX_DEPTH = 300;

/**
 * Finds what depends on whether a build starts or stops the workspace. A block depends on it if any of its expressions
 * does, so the answer may be yes too often, but never no by mistake.
 */
export class TransitionDependence {
  readonly #program: Program;
  readonly #known = new Map<string, boolean>();

  constructor(program: Program) {
    this.#program = program;
  }

  /** @throws EvaluationError if the chain of references is too long */
  of(module: ModuleInstance, expr: Expr | undefined): boolean {
    return expr !== undefined && this.#expression(module, expr, 0);
  }

  /** Whether `count` or `for_each` of a block depends on it. */
  ofExpansion(module: ModuleInstance, { attributes }: Body): boolean {
    return ['count', 'for_each'].some((name) => this.of(module, attributes.get(name)?.value));
  }

  #expression(module: ModuleInstance, expr: Expr, depth: number): boolean {
    if (depth > MAX_DEPTH) throw new EvaluationError(`The template has chains of over ${MAX_DEPTH} references.`);
    return traversals(expr).some((found) => this.#reference(module, found, depth));
  }

  #reference(module: ModuleInstance, { address, rest }: Traversal, depth: number): boolean {
    spend(this.#program.progress.work, 1);
    if (address.startsWith('data.coder_workspace.')) {
      const attribute = rest.find((name) => name !== '[]');
      return attribute === undefined || OF_TRANSITION.has(attribute);
    }
    if (address.startsWith('resource.'))
      throw new EvaluationError('The template has references that begin with "resource".');
    const key = module.inside(address);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    // a part that refers to itself depends on the transition only by its other references
    this.#known.set(key, false);
    const depends = behind(module, address, 'blocks').some((one) => this.#expression(one.module, one.expr, depth + 1));
    this.#known.set(key, depends);
    return depends;
  }
}
