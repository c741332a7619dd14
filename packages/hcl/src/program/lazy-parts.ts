import { exhausted, type Work } from '../evaluate.ts';
import { force, Lazy, type Term } from '../lazy.ts';
import { EvaluationError, object, toNumber, toText, tuple, UNKNOWN, Unknown, type Value } from '../values.ts';

/** The longest chain of parts that are evaluated because of each other. Each takes room on the stack. */
const MAX_CHAIN = 150;

/** What the parts of one evaluation share. */
export interface Progress {
  work: Work;
  /** The number of parts being evaluated. */
  open: number;
}

export const newProgress = (work: Work): Progress => ({ work, open: 0 });

/** A part that is evaluated once, when it is first read. A part that needs itself is unknown there. */
export class Part {
  readonly #progress: Progress;
  readonly #address: string;
  #make: (() => Term) | undefined;
  #done: { term: Term } | { error: EvaluationError } | undefined;

  constructor(progress: Progress, address: string, make: () => Term) {
    this.#progress = progress;
    this.#address = address;
    this.#make = make;
  }

  get(): Term {
    if (this.#done) {
      if ('error' in this.#done) throw this.#done.error;
      return this.#done.term;
    }
    const make = this.#make;
    if (!make) return UNKNOWN;
    const progress = this.#progress;
    if (progress.open >= MAX_CHAIN)
      throw new EvaluationError(`${this.#address} is at the end of a chain of more than ${MAX_CHAIN} references.`);
    this.#make = undefined;
    progress.open++;
    try {
      const term = make();
      this.#done = { term };
      return term;
    } catch (err) {
      if (err instanceof EvaluationError && !exhausted(progress.work)) this.#done = { error: err };
      else this.#make = make;
      throw err;
    } finally {
      progress.open--;
    }
  }
}

/** Named parts, such as the arguments of a block. */
export class Fields extends Lazy {
  readonly #get: (name: string) => Term | undefined;
  readonly #names: () => Iterable<string>;
  readonly #missing: (name: string) => string;

  constructor(
    get: (name: string) => Term | undefined,
    names: () => Iterable<string>,
    missing = (name: string) => `Unknown attribute ${JSON.stringify(name)}.`,
  ) {
    super();
    this.#get = get;
    this.#names = names;
    this.#missing = missing;
  }

  attribute(name: string): Term {
    const term = this.#get(name);
    if (term === undefined) throw new EvaluationError(this.#missing(name));
    return term;
  }

  index(key: Value): Term {
    return key instanceof Unknown ? UNKNOWN : this.attribute(toText(key, 'index'));
  }

  value(): Value {
    return object([...this.#names()].map((name) => [name, force(this.attribute(name))] as const));
  }

  override entries(): [Value, Term][] {
    return [...this.#names()].sort().map((name) => [name, this.attribute(name)]);
  }
}

/** Numbered parts: the instances of a block with `count`. */
export class Elements extends Lazy {
  readonly #items: readonly Term[];

  constructor(items: readonly Term[]) {
    super();
    this.#items = items;
  }

  attribute(name: string): Term {
    throw new EvaluationError(`Cannot read attribute ${JSON.stringify(name)}: the block has count. Add an index.`);
  }

  index(key: Value): Term {
    if (key instanceof Unknown) return UNKNOWN;
    const at = toNumber(key, 'index');
    const found = Number.isInteger(at) && at >= 0 ? this.#items[at] : undefined;
    if (found === undefined)
      throw new EvaluationError(`Invalid index ${at}: the block has ${this.#items.length} instances.`);
    return found;
  }

  value(): Value {
    return tuple(this.#items.map(force));
  }

  override entries(): [Value, Term][] {
    return this.#items.map((item, i) => [i, item]);
  }

  override items(): Term[] {
    return [...this.#items];
  }
}
