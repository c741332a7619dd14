import type { Attribute, Block, Body, Expr } from '../ast.ts';
import { convert } from '../constraint.ts';
import { entriesOf, evaluate, evaluateTerm, type Scope, spend } from '../evaluate.ts';
import { force, Lazy, type Term } from '../lazy.ts';
import { parseExpression } from '../parser.ts';
import { EvaluationError, object, toText, tuple, UNKNOWN, Unknown, type Value } from '../values.ts';
import { addressOf, type ConfigBlock, type Configuration, type Template } from './configuration.ts';
import { type Expansion, eachOf, expansionOf, MAX_INSTANCES, type Names, pair, together } from './expansion.ts';
import { Fields, Part, type Progress } from './lazy-parts.ts';

/** The arguments that Terraform reads itself. */
const META = new Set(['count', 'for_each', 'depends_on', 'provider', 'providers', 'lifecycle', 'source', 'version']);

/** A body with the names that its expressions may use. */
export class BodyInstance {
  readonly module: ModuleInstance;
  readonly body: Body;
  readonly #names: Names;
  readonly #attributes = new Map<string, Part>();
  readonly address: string;
  readonly file: string;

  constructor(module: ModuleInstance, body: Body, names: Names, address: string, file: string) {
    this.module = module;
    this.body = body;
    this.#names = names;
    this.address = address;
    this.file = file;
  }

  written(name: string): Attribute | undefined {
    return this.body.attributes.get(name);
  }

  /** Evaluates an expression of this body. Throws EvaluationError. */
  evaluate(expr: Expr): Term {
    return this.module.evaluate(expr, this.#names);
  }

  /** The value of an argument. Undefined if the body does not have it. Throws EvaluationError. */
  argument(name: string): Term | undefined {
    const attribute = this.written(name);
    if (!attribute) return undefined;
    let part = this.#attributes.get(name);
    if (!part) {
      const make = () => this.evaluate(attribute.value);
      part = new Part(this.module.program.progress, `${this.address}.${name}`, make);
      this.#attributes.set(name, part);
    }
    return part.get();
  }

  /** The inner blocks of a type, with `dynamic` blocks written out. `complete` is false if there may be more. */
  blocks(type: string): { found: BodyInstance[]; complete: boolean } {
    const found: BodyInstance[] = [];
    let complete = true;
    for (const block of this.body.blocks) {
      if (block.type === type) found.push(this.#inner(block.body, this.#names, type));
      else if (block.type === 'dynamic' && block.labels[0] === type) {
        const more = this.#dynamic(block, type);
        if (more) found.push(...more);
        else complete = false;
      }
    }
    return { found, complete };
  }

  innerTypes(): Set<string> {
    return new Set(this.body.blocks.map(({ type, labels }) => (type === 'dynamic' ? labels[0]! : type)));
  }

  #inner(body: Body, names: Names, type: string): BodyInstance {
    return new BodyInstance(this.module, body, names, `${this.address}.${type}`, this.file);
  }

  /** Undefined if the number of blocks is unknown. */
  #dynamic(block: Block, type: string): BodyInstance[] | undefined {
    const over = block.body.attributes.get('for_each')?.value;
    const content = block.body.blocks.find((inner) => inner.type === 'content');
    if (!over || !content)
      throw new EvaluationError(`${this.file}:${block.range.line}: a dynamic block needs for_each and content.`);
    const iterator = block.body.attributes.get('iterator')?.value;
    const name = iterator?.kind === 'variable' ? iterator.name : type;
    const entries = entriesOf(this.evaluate(over));
    if (!entries) return undefined;
    if (entries.length > MAX_INSTANCES)
      throw new EvaluationError(`${this.address} has more than ${MAX_INSTANCES} blocks ${type}.`);
    return entries.map(([key, value]) => this.#inner(content.body, { ...this.#names, [name]: pair(key, value) }, type));
  }
}

/** One instance of a `data` or `resource` block. Its arguments are evaluated when they are read. */
export class BlockInstance extends Lazy {
  readonly block: ConfigBlock;
  readonly body: BodyInstance;
  /** False if it stands for an unknown number of instances of its block or of its module. */
  readonly counted: boolean;
  /** As Terraform writes it: `module.m.data.coder_parameter.x["key"]`. */
  readonly address: string;
  readonly #attributes = new Map<string, Part>();

  constructor(module: ModuleInstance, block: ConfigBlock, names: Names, address: string, counted: boolean) {
    super();
    this.block = block;
    this.counted = counted && module.counted;
    this.body = new BodyInstance(module, block.body, names, address, block.file);
    this.address = address;
  }

  get type(): string {
    return this.block.labels[0]!;
  }

  attribute(name: string): Term {
    let part = this.#attributes.get(name);
    if (!part) {
      const { program } = this.body.module;
      part = new Part(program.progress, `${this.address}.${name}`, () => program.attributeOf(this, name));
      this.#attributes.set(name, part);
    }
    return part.get();
  }

  index(key: Value): Term {
    return key instanceof Unknown ? UNKNOWN : this.attribute(toText(key, 'index'));
  }

  value(): Value {
    const names = this.body.module.program.attributeNames(this);
    return object([...names].map((name) => [name, force(this.attribute(name))] as const));
  }

  /** What the configuration itself says about an attribute: an argument, or the inner blocks of that name. */
  configured(name: string): Term | undefined {
    if (META.has(name)) return undefined;
    const argument = this.body.argument(name);
    if (argument !== undefined) return argument;
    if (!this.body.innerTypes().has(name)) return undefined;
    const { found: blocks, complete } = this.body.blocks(name);
    if (!complete) return UNKNOWN;
    const names = (body: BodyInstance) => [...body.body.attributes.keys()];
    return tuple(
      blocks.map((inner) =>
        new Fields(
          (n) => inner.argument(n),
          () => names(inner),
        ).value(),
      ),
    );
  }
}

/** What a module needs of its program. */
export interface ModuleProgram {
  readonly template: Template;
  readonly progress: Progress;
  /** Makes the instance of a called module. */
  module(place: ModulePlace & Pick<Place, 'configuration'>, input: (name: string) => Term | undefined): ModuleInstance;
  /** The folder of a called module. Undefined, and recorded as missing, if it is not there. */
  folderOf(caller: ModuleInstance, call: ConfigBlock): Place | undefined;
  attributeOf(instance: BlockInstance, name: string): Term;
  attributeNames(instance: BlockInstance): Iterable<string>;
}

/** Where a module is in a program. */
export type ModulePlace = Pick<ModuleInstance, 'dir' | 'address' | 'calls' | 'call' | 'counted'>;

/** A module that is called, or the root module, with its inputs. */
export class ModuleInstance {
  readonly program: ModuleProgram;
  readonly configuration: Configuration;
  readonly dir: string;
  /** The address of its call. Empty for the root module. */
  readonly address: string;
  /** The names of the calls that lead to it. */
  readonly calls: readonly string[];
  /** The call with its arguments. Undefined for the root module. */
  readonly call: BodyInstance | undefined;
  /** False if it stands for an unknown number of instances. */
  readonly counted: boolean;
  readonly #input: (name: string) => Term | undefined;
  readonly #names: Record<string, Term>;
  readonly #parts = new Map<string, Part>();
  readonly #instances = new Map<ConfigBlock, BlockInstance[]>();

  constructor(
    program: ModuleProgram,
    configuration: Configuration,
    at: ModulePlace,
    input: (name: string) => Term | undefined,
  ) {
    this.program = program;
    this.configuration = configuration;
    this.dir = at.dir;
    this.address = at.address;
    this.calls = at.calls;
    this.call = at.call;
    this.counted = at.counted;
    this.#input = input;
    this.#names = this.#rootNames();
  }

  evaluate(expr: Expr, names: Names = {}): Term {
    const scope: Scope = { variables: { ...this.#names, ...names }, files: this.program.template.files };
    return evaluateTerm(expr, scope, this.program.progress.work);
  }

  /** All instances of a data source's type in this module, in the order of their blocks. */
  dataInstances(type: string): BlockInstance[] {
    const blocks = [...(this.configuration.data.get(type)?.values() ?? [])];
    return blocks.flatMap((block) => this.instancesOf(block));
  }

  /** The modules that this module calls. */
  children(): ModuleInstance[] {
    return [...this.configuration.modules.values()].flatMap((call) => this.#called(call));
  }

  /** The instances of one of these modules. None if the call does not exist. */
  childrenOf(name: string): ModuleInstance[] {
    const call = this.configuration.modules.get(name);
    return call ? this.#called(call) : [];
  }

  output(name: string): Term {
    const expr = this.configuration.outputs.get(name)?.body.attributes.get('value')?.value;
    if (!expr) throw new EvaluationError(`The module has no output ${JSON.stringify(name)}.`);
    return this.#part(`output.${name}`, () => this.evaluate(expr));
  }

  /** The value of a variable: the given one, else its default, converted to its type. Undefined if it is not declared. */
  variable(name: string): Term | undefined {
    return this.#variable(name);
  }

  /** Evaluates the instances once: later readers get the same ones. */
  instancesOf(block: ConfigBlock): BlockInstance[] {
    const known = this.#instances.get(block);
    if (known) return known;
    const address = this.inside(addressOf(block));
    const expansion = this.#expansion(block, address);
    const made = eachOf(expansion).map(({ suffix, names }) => {
      spend(this.program.progress.work, 1);
      return new BlockInstance(this, block, names, `${address}${suffix}`, expansion.kind !== 'unknown');
    });
    this.#instances.set(block, made);
    return made;
  }

  /** The address of something in this module, as Terraform writes it. */
  inside(address: string): string {
    return this.address === '' ? address : `${this.address}.${address}`;
  }

  #part(address: string, make: () => Term): Term {
    let part = this.#parts.get(address);
    if (!part) {
      part = new Part(this.program.progress, this.inside(address), make);
      this.#parts.set(address, part);
    }
    return part.get();
  }

  #rootNames(): Record<string, Term> {
    const { configuration } = this;
    const names: Record<string, Term> = Object.create(null) as Record<string, Term>;
    for (const type of configuration.resources.keys()) names[type] = this.#labels('resource', type);
    const data = new Fields(
      (type) => (configuration.data.has(type) ? this.#labels('data', type) : undefined),
      () => configuration.data.keys(),
      (type) => `The module has no data source of type ${type}.`,
    );
    const declared = (what: string) => (name: string) => `${what}.${name} is not declared.`;
    const { variables, locals, modules } = configuration;
    names['data'] = data;
    names['var'] = new Fields(
      (name) => this.#variable(name),
      () => variables.keys(),
      declared('var'),
    );
    names['local'] = new Fields(
      (name) => this.#local(name),
      () => locals.keys(),
      declared('local'),
    );
    names['module'] = new Fields(
      (name) => this.#module(name),
      () => modules.keys(),
      declared('module'),
    );
    names['path'] = object([
      ['module', this.dir],
      ['root', '.'],
      ['cwd', UNKNOWN],
    ]);
    names['terraform'] = object([
      ['workspace', 'default'],
      ['applying', false],
    ]);
    return names;
  }

  #labels(kind: 'data' | 'resource', type: string): Lazy {
    const blocks = (kind === 'data' ? this.configuration.data : this.configuration.resources).get(type)!;
    const prefix = kind === 'data' ? `data.${type}` : type;
    return new Fields(
      (label) => {
        const block = blocks.get(label);
        return block && this.#part(`${prefix}.${label}`, () => this.#whole(block, `${prefix}.${label}`));
      },
      () => blocks.keys(),
      (label) => `${prefix}.${label} is not declared.`,
    );
  }

  /** A block as expressions see it: one instance, or all of them by index. */
  #whole(block: ConfigBlock, address: string): Term {
    const expansion = this.#expansion(block, this.inside(address));
    if (expansion.kind === 'unknown') return UNKNOWN;
    return together(expansion, this.instancesOf(block));
  }

  #variable(name: string): Term | undefined {
    const block = this.configuration.variables.get(name);
    if (!block) return undefined;
    return this.#part(`var.${name}`, () => {
      const get = (attribute: string) => block.body.attributes.get(attribute)?.value;
      const fallback = get('default');
      const nullable = get('nullable');
      const keepsNull = !(nullable?.kind === 'literal' && nullable.value === false);
      const work = this.program.progress.work;
      let given = this.#input(name);
      if (given === undefined || (given === null && !keepsNull))
        given = fallback ? evaluate(fallback, { variables: {} }, work) : UNKNOWN;
      const type = typeOf(get('type'));
      if (!type || (type.kind === 'variable' && type.name === 'any')) return given;
      try {
        return convert(force(given), type, work);
      } catch (err) {
        if (err instanceof EvaluationError) throw new EvaluationError(`var.${name}: ${err.message}`);
        throw err;
      }
    });
  }

  #local(name: string): Term | undefined {
    const expr = this.configuration.locals.get(name);
    return expr && this.#part(`local.${name}`, () => this.evaluate(expr));
  }

  #module(name: string): Term | undefined {
    const call = this.configuration.modules.get(name);
    if (!call) return undefined;
    return this.#part(`module.${name}`, () => {
      const address = `module.${name}`;
      const expansion = this.#expansion(call, this.inside(address));
      if (expansion.kind === 'unknown' || !this.program.folderOf(this, call)) return UNKNOWN;
      const outputs = (module: ModuleInstance) =>
        new Fields(
          (output) => module.output(output),
          () => module.configuration.outputs.keys(),
        );
      return together(expansion, this.#called(call).map(outputs));
    });
  }

  readonly #modules = new Map<ConfigBlock, ModuleInstance[]>();

  #called(call: ConfigBlock): ModuleInstance[] {
    const known = this.#modules.get(call);
    if (known) return known;
    const name = call.labels[0]!;
    const address = this.inside(`module.${name}`);
    const expansion = this.#expansion(call, address);
    const instances = eachOf(expansion);
    const counted = this.counted && expansion.kind !== 'unknown';
    const folder = instances.length > 0 ? this.program.folderOf(this, call) : undefined;
    if (!folder) return [];
    const made = instances.map(({ suffix, names }) => {
      const at = `${address}${suffix}`;
      const inputs = new BodyInstance(this, call.body, names, at, call.file);
      const place = { ...folder, address: at, calls: [...this.calls, name], call: inputs, counted };
      return this.program.module(place, (input) => (META.has(input) ? undefined : inputs.argument(input)));
    });
    this.#modules.set(call, made);
    return made;
  }

  #expansion(block: ConfigBlock, address: string): Expansion {
    return expansionOf(block.body, (expr) => this.evaluate(expr), address);
  }
}

/** A type constraint, whose legacy form is a text. */
function typeOf(expr: Expr | undefined): Expr | undefined {
  if (expr?.kind !== 'literal') return expr;
  return typeof expr.value === 'string' ? parseExpression(expr.value).expr : undefined;
}

export interface Place {
  configuration: Configuration;
  dir: string;
}
