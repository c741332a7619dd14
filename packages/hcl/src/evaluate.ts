import { ownValue } from '@ropewalk/kit/own-value';
import type { Expr, TemplatePart } from './ast.ts';
import { textOf } from './functions/files.ts';
import { functions } from './functions/index.ts';
import type { Files, Meter } from './functions/types.ts';
import { force, Lazy, type Term } from './lazy.ts';
import { parseTemplate } from './parser.ts';
import {
  count,
  Dict,
  EvaluationError,
  equal,
  object,
  primitiveText,
  readingSteps,
  Seq,
  toBool,
  toNumber,
  toText,
  tuple,
  typeName,
  UNKNOWN,
  Unknown,
  unifyAll,
  type Value,
  whollyKnown,
} from './values.ts';

export interface Scope {
  /** The values of root names in traversals: `var`, `local`, `data`, … */
  variables: Readonly<Record<string, Term>>;
  /** False if Terraform allows no function calls here. */
  functions?: boolean;
  /** The files that functions such as `file` read. Absent: these functions fail. */
  files?: Files;
  /** Whether the expression is in a template that an expression renders. Such a template cannot render another. */
  inTemplate?: boolean;
}

/** The limit of steps in one evaluation. Otherwise a short expression can require any amount of work. */
const MAX_STEPS = 400_000;
const MAX_TEXT = 8 * 1024 * 1024;
/** The limit of nested expressions, including locals that refer to locals. */
const MAX_NESTED = 2000;
const MAX_ARGUMENTS = 10_000;

/** The work that evaluations have used. Several that share one object share its limits. */
export interface Work {
  steps: number;
  /** The UTF-16 units of created text. */
  text: number;
  /** The number of nested expressions in evaluation. */
  nested: number;
}

export const newWork = (): Work => ({ steps: 0, text: 0, nested: 0 });

/** Whether the limits are used up. */
export const exhausted = (work: Work): boolean => work.steps > MAX_STEPS || work.text > MAX_TEXT;

/** Counts steps. Throws EvaluationError if the limit is exceeded. */
export function spend(work: Work, steps: number): void {
  work.steps += steps;
  if (work.steps > MAX_STEPS) throw new EvaluationError(`The expression takes more than ${count(MAX_STEPS)} steps.`);
}

class Evaluator implements Meter {
  readonly scope: Scope;
  /** The names of for expressions, innermost last. */
  readonly locals: Map<string, Term>[] = [];
  readonly splatItems: Term[] = [];
  readonly work: Work;

  constructor(scope: Scope, work: Work) {
    this.scope = scope;
    this.work = work;
  }

  steps(n: number): void {
    spend(this.work, n);
  }

  room(characters: number): void {
    if (this.work.text + characters > MAX_TEXT)
      throw new EvaluationError(`The expression makes more than ${count(MAX_TEXT)} characters of text.`);
  }

  text(characters: number): void {
    this.work.text += characters;
    this.room(0);
  }

  /** Counts the result of a function, which limits what a chain of functions can multiply. */
  made<T extends Value>(value: T): T {
    if (typeof value === 'string') this.text(value.length);
    else this.steps(readingSteps(value));
    return value;
  }

  eval(expr: Expr): Value {
    return force(this.term(expr));
  }

  term(expr: Expr): Term {
    this.steps(1);
    if (++this.work.nested > MAX_NESTED)
      throw new EvaluationError(`Expressions are nested deeper than ${count(MAX_NESTED)} levels.`);
    const term = this.#term(expr);
    this.work.nested--;
    return term;
  }

  /** Returns the value or the error of an expression, so that evaluation can continue. */
  tried(expr: Expr): Value | EvaluationError {
    const { nested } = this.work;
    const [locals, items] = [this.locals.length, this.splatItems.length];
    try {
      return this.eval(expr);
    } catch (err) {
      if (!(err instanceof EvaluationError) || exhausted(this.work)) throw err;
      this.work.nested = nested;
      this.locals.length = locals;
      this.splatItems.length = items;
      return err;
    }
  }

  #term(expr: Expr): Term {
    switch (expr.kind) {
      case 'literal':
        return expr.value;
      case 'wrap':
        return this.term(expr.value);
      case 'parens':
        return this.term(expr.inner);
      case 'template':
        return this.template(expr.parts);
      case 'tuple':
        return tuple(expr.items.map((item) => this.eval(item)));
      case 'object':
        return this.object(expr.items);
      case 'for':
        return this.for(expr);
      case 'conditional':
        return this.conditional(expr);
      case 'binary':
        return this.binary(expr);
      case 'unary':
        return this.unary(expr);
      case 'call':
        return this.call(expr);
      case 'variable':
        return this.variable(expr.name);
      case 'attribute':
        return attribute(this.term(expr.on), expr.name);
      case 'index':
        return index(this.term(expr.on), this.eval(expr.key));
      case 'splat':
        return this.splat(expr);
      case 'item':
        return this.splatItems.at(-1)!;
    }
  }

  variable(name: string): Term {
    for (let i = this.locals.length - 1; i >= 0; i--) {
      const found = this.locals[i]!.get(name);
      if (found !== undefined) return found;
    }
    if (!Object.hasOwn(this.scope.variables, name)) throw new EvaluationError(`Nothing named ${name} exists here.`);
    return this.scope.variables[name]!;
  }

  template(parts: TemplatePart[]): string | Unknown {
    let out = '';
    let unknown = false;
    const add = (value: string | Unknown) => {
      if (value instanceof Unknown) unknown = true;
      else out += value;
    };
    for (const part of parts) {
      this.steps(1);
      if (part.kind === 'text') {
        this.text(part.text.length);
        out += part.text;
      } else if (part.kind === 'interpolation') {
        const value = this.eval(part.value);
        if (value instanceof Unknown) unknown = true;
        else if (value === null) throw new EvaluationError('Cannot put a null into a string.');
        else {
          const text = toText(value, 'template');
          this.text(text.length);
          out += text;
        }
      } else if (part.kind === 'if') {
        const condition = this.eval(part.condition);
        if (condition instanceof Unknown) unknown = true;
        else add(this.template(toBool(condition, 'condition') ? part.whenTrue : part.whenFalse));
      } else {
        const entries = entriesOf(this.term(part.collection));
        if (entries === undefined) unknown = true;
        else
          for (const [key, value] of entries)
            add(this.within(part.keyName, part.valueName, key, value, () => this.template(part.body)));
      }
    }
    return unknown ? UNKNOWN : out;
  }

  object(items: { key: Expr; value: Expr }[]): Value {
    const entries: [string, Value][] = [];
    let unknown = false;
    for (const item of items) {
      const key = this.eval(item.key);
      const value = this.eval(item.value);
      if (key instanceof Unknown) unknown = true;
      else entries.push([toText(key, 'key of an object'), value]);
    }
    return unknown ? UNKNOWN : object(entries);
  }

  within<T>(keyName: string | undefined, valueName: string, key: Value, value: Term, run: () => T): T {
    const names = new Map<string, Term>([[valueName, value]]);
    if (keyName !== undefined) names.set(keyName, key);
    this.locals.push(names);
    try {
      return run();
    } finally {
      this.locals.pop();
    }
  }

  for(expr: Extract<Expr, { kind: 'for' }>): Value {
    const entries = entriesOf(this.term(expr.collection));
    if (entries === undefined) return UNKNOWN;
    const items: Value[] = [];
    const groups = new Map<string, Value[]>();
    let unknown = false;
    for (const [key, value] of entries) {
      this.within(expr.keyName, expr.valueName, key, value, () => {
        if (expr.condition) {
          const wanted = this.eval(expr.condition);
          if (wanted === null) throw new EvaluationError('The condition of a for expression is null.');
          if (wanted instanceof Unknown) unknown = true;
          else if (!toBool(wanted, 'condition')) return;
        }
        if (!expr.key) {
          items.push(this.eval(expr.value));
          return;
        }
        const made = this.eval(expr.key);
        if (made instanceof Unknown) {
          unknown = true;
          return;
        }
        const name = toText(made, 'key of a for expression');
        const group = groups.get(name);
        if (group && !expr.group) throw new EvaluationError(`Two elements have the key ${JSON.stringify(name)}.`);
        const result = this.eval(expr.value);
        if (group) group.push(result);
        else groups.set(name, [result]);
      });
    }
    if (unknown) return UNKNOWN;
    if (!expr.key) return tuple(items);
    return object([...groups].map(([k, values]) => [k, expr.group ? tuple(values) : values[0]!] as const));
  }

  conditional(expr: Extract<Expr, { kind: 'conditional' }>): Value {
    const condition = this.eval(expr.condition);
    if (condition === null) throw new EvaluationError('The condition is null.');
    if (condition instanceof Unknown) return UNKNOWN;
    const chosen = this.eval(toBool(condition, 'condition') ? expr.whenTrue : expr.whenFalse);
    // The other side only affects the type, and may fail exactly because it was not chosen.
    const other = this.tried(toBool(condition) ? expr.whenFalse : expr.whenTrue);
    if (other instanceof EvaluationError) return chosen;
    this.steps(readingSteps(chosen) + readingSteps(other));
    if (chosen instanceof Seq && other instanceof Seq) return sameSeq(chosen, other);
    if (chosen instanceof Dict && other instanceof Dict) return chosen;
    try {
      return unifyAll([chosen, other])[0]!;
    } catch {
      throw new EvaluationError(`The two results are of different types: ${typeName(chosen)} and ${typeName(other)}.`);
    }
  }

  binary(expr: Extract<Expr, { kind: 'binary' }>): Value {
    const left = this.eval(expr.left);
    const right = this.eval(expr.right);
    const { op } = expr;
    if (op === '==' || op === '!=') {
      this.steps(readingSteps(left) + readingSteps(right));
      const same = equal(left, right);
      return same instanceof Unknown ? UNKNOWN : op === '==' ? same : !same;
    }
    if (left === null || right === null) throw new EvaluationError(`An operand of ${op} is null.`);
    if (left instanceof Unknown || right instanceof Unknown) return UNKNOWN;
    const what = `operand of ${op}`;
    if (op === '&&') return toBool(left, what) && toBool(right, what);
    if (op === '||') return toBool(left, what) || toBool(right, what);
    return arithmetic(op, toNumber(left, what), toNumber(right, what));
  }

  unary(expr: Extract<Expr, { kind: 'unary' }>): Value {
    const operand = this.eval(expr.operand);
    if (operand instanceof Unknown) return UNKNOWN;
    if (operand === null) throw new EvaluationError(`The operand of ${expr.op} is null.`);
    return expr.op === '!' ? !toBool(operand, 'operand of !') : -toNumber(operand, 'operand of -');
  }

  call(expr: Extract<Expr, { kind: 'call' }>): Value {
    if (this.scope.functions === false) throw new EvaluationError('Cannot call functions here.');
    const name = expr.name.startsWith('core::') ? expr.name.slice(6) : expr.name;
    // try and can need expressions instead of values: they handle errors in their arguments.
    if (name === 'try' || name === 'can') return this.attempt(name, expr.args);
    if (name === 'templatefile' || name === 'templatestring') return this.rendered(name, expr.args);
    const fn = ownValue(functions, name);
    if (!fn) throw new EvaluationError(`Unknown function ${name}.`);
    const args = expr.args.map((arg) => this.eval(arg));
    if (expr.expand) {
      const last = args.pop();
      if (last instanceof Unknown) return UNKNOWN;
      if (!(last instanceof Seq))
        throw new EvaluationError(`Cannot expand the last argument of ${name}: it is not a list.`);
      for (const item of last.items) args.push(item);
    }
    if (args.length > MAX_ARGUMENTS)
      throw new EvaluationError(`${name} has more than ${count(MAX_ARGUMENTS)} arguments.`);
    const { least, most = least } = fn;
    if (args.length < least || args.length > most)
      throw new EvaluationError(`${name} takes ${arity(least, most)}, not ${args.length}.`);
    for (const [i, arg] of args.entries()) {
      if (arg instanceof Unknown || (!fn.structural && !whollyKnown(arg))) return UNKNOWN;
      if (arg === null && !fn.nulls) throw new EvaluationError(`Argument ${i + 1} of ${name} is null.`);
    }
    if (!fn.constant) for (const arg of args) this.steps(readingSteps(arg));
    try {
      if ('run' in fn) return this.made(fn.run(...args));
      if ('metered' in fn) return this.made(fn.metered(this, ...args));
      return this.made(fn.reads(this.files(name), this, ...args));
    } catch (err) {
      if (err instanceof EvaluationError) throw err;
      // An error of the standard library about a value that no check here foresaw.
      throw new EvaluationError(`${name}: ${(err as Error).message}.`);
    }
  }

  files(name: string): Files {
    if (this.scope.files) return this.scope.files;
    throw new EvaluationError(`${name} cannot read files here.`);
  }

  /** Renders a template with its own variables. */
  rendered(name: 'templatefile' | 'templatestring', args: Expr[]): Value {
    if (args.length !== 2) throw new EvaluationError(`${name} takes 2 arguments, not ${args.length}.`);
    if (this.scope.inTemplate) throw new EvaluationError(`A template cannot call ${name}.`);
    const [given, variables] = [this.eval(args[0]!), this.eval(args[1]!)];
    if (given instanceof Unknown || variables instanceof Unknown) return UNKNOWN;
    if (!(variables instanceof Dict)) throw new EvaluationError(`The variables of ${name} must be a map.`);
    const text = toText(given, 'template');
    const source = name === 'templatefile' ? textOf(this.files(name), this, text) : text;
    this.steps(1 + Math.floor(source.length / 8));
    const { expr, diagnostics } = parseTemplate(source, name === 'templatefile' ? text : '<template>');
    if (!expr) throw new EvaluationError(`${diagnostics[0]?.file}:${diagnostics[0]?.line}: ${diagnostics[0]?.message}`);
    const scope: Scope = { ...this.scope, variables: Object.fromEntries(variables.entries), inTemplate: true };
    const value = evaluate(expr, scope, this.work);
    return value instanceof Unknown || value === null ? value : (primitiveText(value) ?? value);
  }

  attempt(name: 'try' | 'can', args: Expr[]): Value {
    if (args.length === 0) throw new EvaluationError(`${name} needs an argument.`);
    let last: EvaluationError | undefined;
    for (const arg of args) {
      const value = this.tried(arg);
      if (!(value instanceof EvaluationError)) return name === 'can' ? true : value;
      last = value;
    }
    if (name === 'can') return false;
    throw new EvaluationError(`No argument of try could be evaluated; the last one failed: ${last?.message}`);
  }

  splat(expr: Extract<Expr, { kind: 'splat' }>): Value {
    const whole = this.term(expr.on);
    const parts = whole instanceof Lazy ? whole.items() : undefined;
    const on = parts ? undefined : force(whole);
    if (on instanceof Unknown) return UNKNOWN;
    // Anything other than a list is a list of one, and null is an empty list.
    const items = parts ?? (on instanceof Seq ? on.items : on === null ? [] : [on!]);
    const out = items.map((item) => {
      this.splatItems.push(item);
      try {
        return this.eval(expr.each);
      } finally {
        this.splatItems.pop();
      }
    });
    return on instanceof Seq && on.kind !== 'tuple' ? new Seq('list', out) : tuple(out);
  }
}

const arity = (least: number, most: number) =>
  least === most ? `${least} argument${least === 1 ? '' : 's'}` : `at least ${least} arguments`;

/** Unifies lists element by element. Tuples of the same length stay tuples. */
function sameSeq(chosen: Seq, other: Seq): Value {
  if (chosen.kind === 'tuple' && other.kind === 'tuple' && chosen.items.length === other.items.length) {
    const unified = chosen.items.map((item, i) => {
      try {
        return unifyAll([item, other.items[i]!])[0]!;
      } catch {
        return item;
      }
    });
    return tuple(unified);
  }
  const all = unifyAll([...chosen.items, ...other.items]).slice(0, chosen.items.length);
  return new Seq(chosen.kind === 'set' ? 'set' : 'list', all);
}

function arithmetic(op: string, a: number, b: number): Value {
  switch (op) {
    case '<':
      return a < b;
    case '<=':
      return a <= b;
    case '>':
      return a > b;
    case '>=':
      return a >= b;
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      if (b === 0) throw new EvaluationError('Division by zero.');
      return a / b;
    default:
      if (b === 0) throw new EvaluationError('Division by zero.');
      return a % b;
  }
}

/** Returns the keys and values that a for expression iterates over. Undefined if they are unknown. */
export function entriesOf(term: Term): [Value, Term][] | undefined {
  const parts = term instanceof Lazy ? term.entries() : undefined;
  if (parts) return parts;
  const collection = force(term);
  if (collection instanceof Unknown) return undefined;
  if (collection instanceof Dict) return [...collection.entries];
  if (collection instanceof Seq)
    return collection.items.map((item, i) => (collection.kind === 'set' ? [item, item] : [i, item]));
  throw new EvaluationError(`A for expression needs a collection, not ${typeName(collection)}.`);
}

function attribute(on: Term, name: string): Term {
  if (on instanceof Lazy) return on.attribute(name);
  if (on instanceof Unknown) return UNKNOWN;
  if (on instanceof Dict) {
    const found = on.entries.get(name);
    if (found !== undefined) return found;
    throw new EvaluationError(`Unknown attribute ${JSON.stringify(name)}.`);
  }
  throw new EvaluationError(`Cannot read attribute ${JSON.stringify(name)}: a ${typeName(on)} has no attributes.`);
}

function index(on: Term, key: Value): Term {
  if (on instanceof Lazy) return on.index(key);
  if (on instanceof Unknown || key instanceof Unknown) return UNKNOWN;
  if (on instanceof Dict) return attribute(on, toText(key, 'index'));
  if (!(on instanceof Seq) || on.kind === 'set') throw new EvaluationError(`A ${typeName(on)} has no index.`);
  const at = toNumber(key, 'index');
  const found = Number.isInteger(at) && at >= 0 ? on.items[at] : undefined;
  if (found === undefined) throw new EvaluationError(`Invalid index ${at}: the list has ${on.items.length} elements.`);
  return found;
}

/**
 * Evaluates an expression. Whatever depends on an unknown value is unknown. Throws EvaluationError, whose message is
 * for the author of the expression. Steps, depth and created text are limited, together with all other evaluations that
 * get the same `work`.
 */
export function evaluate(expr: Expr, scope?: Scope, work?: Work): Value {
  return force(evaluateTerm(expr, scope, work));
}

/** Like evaluate, but leaves parts of the result that nobody has read unevaluated. */
export function evaluateTerm(expr: Expr, scope: Scope = { variables: {} }, work: Work = newWork()): Term {
  const { nested } = work;
  try {
    return new Evaluator(scope, work).term(expr);
  } finally {
    work.nested = nested;
  }
}
