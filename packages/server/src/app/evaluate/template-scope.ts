import {
  Dict,
  EvaluationError,
  type Expr,
  evaluate,
  type LoadedModule,
  loadModule,
  newWork,
  object,
  references,
  Seq,
  Template,
  toNumber,
  toText,
  tuple,
  UNKNOWN,
  Unknown,
  unsetVariables,
  type Value,
  variableValue,
  type Work,
} from '@platform/hcl';
import { AppError } from '@platform/kit';
import type { Transition } from '../../db/queries/builds.ts';
import type { ParameterRow } from '../../db/queries/version-contents.ts';
import { readTar } from './archive.ts';
import type { NameValue } from './parameter-values.ts';
import { filesOf } from './templates.ts';

/** The build that needs tags. It need not exist yet. */
export interface BuildOf {
  versionId: string;
  /** The workspace owner. */
  ownerId: string;
  /** A parameter that is not listed has its default. */
  parameters?: readonly NameValue[];
  /** Absent: everything that depends on the workspace is unknown. */
  workspace?: { id: string; name: string; transition: Transition };
}

/** The part of a template that is known before Terraform runs. */
export interface Known {
  /** Values of the roots (`var`, `local`, `data`, …) that an expression refers to. Throws EvaluationError. */
  variables(expr: Expr): Record<string, Value>;
  /** The addresses, including those behind them, that only Terraform knows. */
  unknown(addresses: readonly string[]): string[];
  /** Whether a sensitive variable is among these addresses or behind them. */
  sensitive(addresses: readonly string[]): boolean;
  /** Limits the work of all evaluations for one build. */
  work: Work;
}

type Module = Pick<LoadedModule, 'locals' | 'parameters'> & {
  template: Template;
  /** The size of its source, in bytes. */
  size: number;
};
export interface VariableRow {
  name: string;
  type: string;
  value: string;
  /** Whether somebody set the value. Otherwise the files decide. */
  given: boolean;
  sensitive: boolean;
}

/** The longest chain of locals that refer to each other. */
const MAX_CHAIN = 200;
const MAX_INSTANCES = 100;
const MAX_SOURCE_BYTES = 4 * 1024 * 1024;

/** The values that a template's expressions are evaluated with, as plain data. */
export interface Inputs {
  build: BuildOf;
  variables: readonly VariableRow[];
  parameters: readonly ParameterRow[];
  owner: { name: string; full_name: string; email: string } | undefined;
  /**
   * The archive of the template, whose files never change. Without its bytes, the modules read from it before are used.
   */
  file: { id: string; data?: Uint8Array };
}

/** Modules by file, the most recently used last. */
const modules = new Map<string, Module>();
const MAX_MODULES = 16;
/** Limits the source bytes of all kept modules. The parsed form may take fifty times as much memory. */
const MAX_MODULE_BYTES = 1024 * 1024;

/**
 * Collects the values that expressions with these references need. The template's files are needed only for locals, for
 * the labels of parameters and for variables that nobody set. Undefined when they are needed and not given. Throws EvaluationError when they cannot
 * be read.
 */
export async function templateScope(inputs: Inputs, needed: readonly string[]): Promise<Known | undefined> {
  const given = new Set(inputs.variables.flatMap((row) => (row.given ? [`var.${row.name}`] : [])));
  const inFiles = needed.some(
    (address) =>
      /^(local|data\.coder_parameter)\./.test(address) || (address.startsWith('var.') && !given.has(address)),
  );
  const module = inFiles ? await moduleOf(inputs.file) : NO_FILES;
  return module && new TemplateScope(inputs, module);
}

const NO_FILES: Module = { template: new Template(filesOf([])), locals: new Map(), parameters: new Map(), size: 0 };

/** The references behind an address that the module itself declares. */
function behind({ locals, parameters }: Module, address: string): string[] {
  const local = address.startsWith('local.') ? locals.get(address.slice(6)) : undefined;
  if (local) return references(local);
  const block = address.startsWith('data.coder_parameter.') ? parameters.get(address.slice(21)) : undefined;
  if (!block) return [];
  const all = [block.name, block.count, block.forEach].flatMap((expr) => (expr ? references(expr) : []));
  return all.filter((found) => !/^(count|each)\./.test(found));
}

function closure(module: Module, addresses: readonly string[]): Set<string> {
  const all = new Set(addresses);
  // iterating over a set includes the items added meanwhile
  for (const address of all) for (const more of behind(module, address)) all.add(more);
  return all;
}

async function moduleOf({ id, data }: Inputs['file']): Promise<Module | undefined> {
  const known = modules.get(id);
  if (known) modules.delete(id);
  const module = known ?? (data && (await readModule(data)));
  if (!module) return undefined;
  modules.set(id, module);
  let bytes = [...modules.values()].reduce((sum, { size }) => sum + size, 0);
  for (const [oldest, { size }] of modules) {
    if (modules.size <= MAX_MODULES && bytes <= MAX_MODULE_BYTES) break;
    modules.delete(oldest);
    bytes -= size;
  }
  return module;
}

async function readModule(archive: Uint8Array): Promise<Module> {
  const isSource = (path: string) => !path.includes('/') && /\.(tf|tfvars)(\.json)?$/.test(path);
  const root = await readTar(archive, isSource).catch((err: unknown) => {
    if (!(err instanceof AppError)) throw err;
    throw new EvaluationError(`The template's files cannot be read: ${err.message}`);
  });
  const size = root.reduce((sum, { data }) => sum + data.length, 0);
  if (size > MAX_SOURCE_BYTES)
    throw new EvaluationError(`The template's .tf files are larger than ${MAX_SOURCE_BYTES} bytes.`);
  const { locals, parameters, diagnostics } = loadModule(
    Object.fromEntries(root.map(({ path, data }) => [path, data] as const)),
  );
  const [wrong] = diagnostics;
  if (wrong) throw new EvaluationError(`${wrong.file}:${wrong.line}: ${wrong.message}`);
  return { template: new Template(filesOf(root)), locals, parameters, size };
}

class TemplateScope implements Known {
  readonly work: Work = newWork();
  readonly #build: BuildOf;
  readonly #module: Module;
  readonly #variables: ReadonlyMap<string, VariableRow>;
  readonly #parameters: ReadonlyMap<string, ParameterRow>;
  readonly #given: ReadonlyMap<string, string>;
  readonly #owner: { name: string; full_name: string; email: string } | undefined;
  readonly #values = new Map<string, Value>();
  #unset: ((name: string) => Value | undefined) | undefined;
  /** The addresses being evaluated, outermost first. */
  readonly #open = new Set<string>();

  constructor({ build, variables, parameters, owner }: Inputs, module: Module) {
    this.#build = build;
    this.#module = module;
    this.#variables = new Map(variables.map((row) => [row.name, row]));
    this.#parameters = new Map(parameters.map((row) => [row.name, row]));
    this.#given = new Map((build.parameters ?? []).map(({ name, value }) => [name, value]));
    this.#owner = owner;
  }

  variables(expr: Expr): Record<string, Value> {
    const roots = new Map<string, Value>();
    const groups = new Map<string, Map<string, Value>>([
      ['var', new Map()],
      ['local', new Map()],
    ]);
    const types = new Map<string, Map<string, Value>>();
    for (const address of references(expr)) {
      const [root, second, third] = split(address);
      const group = root === 'data' ? types : groups;
      const key = root === 'data' ? second : root;
      if (!group.has(key) && !KNOWN_ROOTS.has(root)) roots.set(root, UNKNOWN);
      else {
        const values = group.get(key) ?? new Map<string, Value>();
        group.set(key, values.set(root === 'data' ? third : second, this.#value(address)));
      }
    }
    const data = object([...types].map(([type, values]) => [type, object(values)] as const));
    for (const [name, values] of groups) roots.set(name, object(values));
    return Object.fromEntries([...roots, ['data', data]]);
  }

  unknown(addresses: readonly string[]): string[] {
    const all = [...closure(this.#module, addresses)].filter((address) => !/^(var|local)\./.test(address));
    const known = all.filter((address) => {
      const [root, type, label] = split(address);
      return root === 'data' && label !== '' && KNOWN_DATA.has(type);
    });
    const found = new Set(known);
    const others = all.filter((address) => !found.has(address));
    // for partly known values, the message does not say which part was requested
    return others.length > 0 ? others : known.filter((address) => hasUnknown(this.#value(address)));
  }

  sensitive(addresses: readonly string[]): boolean {
    return [...closure(this.#module, addresses)].some(
      (address) => address.startsWith('var.') && this.#variables.get(address.slice(4))?.sensitive === true,
    );
  }

  #value(address: string): Value {
    const known = this.#values.get(address);
    if (known !== undefined) return known;
    if (this.#open.has(address)) throw new EvaluationError(`${address} refers to itself.`);
    if (this.#open.size >= MAX_CHAIN)
      throw new EvaluationError(`${address} refers to a chain of more than ${MAX_CHAIN} addresses.`);
    this.#open.add(address);
    try {
      const value = this.#make(address);
      this.#values.set(address, value);
      return value;
    } finally {
      this.#open.delete(address);
    }
  }

  #make(address: string): Value {
    const [root, name, label] = split(address);
    if (root === 'var') {
      const row = this.#variables.get(name);
      if (!row) throw new EvaluationError(`${address} is not declared.`);
      if (row.given) return variableValue(row, this.work);
      this.#unset ??= unsetVariables(this.#module.template, this.work);
      return this.#unset(name) ?? UNKNOWN;
    }
    if (root === 'local') {
      const expr = this.#module.locals.get(name);
      if (!expr) throw new EvaluationError(`${address} is not declared.`);
      return this.#evaluate(expr);
    }
    if (name === 'coder_parameter') return this.#parameter(address, label);
    if (name === 'coder_workspace') return this.#workspace();
    if (name === 'coder_workspace_owner') return this.#ownerValue();
    return UNKNOWN;
  }

  #evaluate(expr: Expr, more: Record<string, Value> = {}): Value {
    return evaluate(expr, { variables: { ...this.variables(expr), ...more } }, this.work);
  }

  #parameter(address: string, label: string): Value {
    const block = this.#module.parameters.get(label);
    if (!block) throw new EvaluationError(`${address} is not declared.`);
    const { name, count, forEach } = block;
    if (!name) throw new EvaluationError(`${address} has no name.`);
    const one = (more: Record<string, Value> = {}): Value => {
      const is = this.#evaluate(name, more);
      if (is instanceof Unknown) return UNKNOWN;
      const text = toText(is, 'name of a parameter');
      const [row, value] = [this.#parameters.get(text), this.#given.get(text)];
      if (row) return parameterValue(row, value ?? row.default_value);
      // the import does not find a parameter that depends on other values, but the build has its value
      if (value === undefined) return UNKNOWN;
      return object([
        ['name', text],
        ['value', value],
      ]);
    };
    if (count) {
      const many = this.#evaluate(count);
      if (many instanceof Unknown) return UNKNOWN;
      const length = toNumber(many, 'count');
      if (length > MAX_INSTANCES) throw new EvaluationError(`${address} has more than ${MAX_INSTANCES} instances.`);
      return tuple(Array.from({ length }, (_, index) => one({ count: object([['index', index]]) })));
    }
    if (forEach) {
      const over = this.#evaluate(forEach);
      if (over instanceof Unknown) return UNKNOWN;
      const entries: [string, Value][] =
        over instanceof Dict
          ? [...over.entries]
          : over instanceof Seq
            ? over.items.map((item) => [toText(item, 'key of for_each'), item])
            : [];
      if (entries.length > MAX_INSTANCES)
        throw new EvaluationError(`${address} has more than ${MAX_INSTANCES} instances.`);
      const each = (key: string, value: Value) =>
        object([
          ['key', key],
          ['value', value],
        ]);
      return object(entries.map(([key, value]) => [key, one({ each: each(key, value) })] as const));
    }
    return one();
  }

  #workspace(): Value {
    const { workspace } = this.#build;
    const rest = ['access_port', 'access_url', 'is_prebuild', 'is_prebuild_claim', 'prebuild_count'];
    const template = ['template_id', 'template_name', 'template_version'];
    return object([
      ...[...rest, ...template].map((name) => [name, UNKNOWN] as const),
      ['id', workspace?.id ?? UNKNOWN],
      ['name', workspace?.name ?? UNKNOWN],
      ['transition', workspace?.transition ?? UNKNOWN],
      ['start_count', workspace ? Number(workspace.transition === 'start') : UNKNOWN],
    ]);
  }

  #ownerValue(): Value {
    // The owner's keys and tokens are left to Terraform, and so is everything that changes while the template stays the
    // same.
    const rest = ['groups', 'login_type', 'oidc_access_token', 'rbac_roles', 'session_token'];
    const keys = ['ssh_private_key', 'ssh_public_key'];
    return object([
      ...[...rest, ...keys].map((name) => [name, UNKNOWN] as const),
      ['id', this.#build.ownerId],
      ['name', this.#owner?.name ?? UNKNOWN],
      // the provider uses this for a user without a full name
      ['full_name', this.#owner ? this.#owner.full_name || 'default' : UNKNOWN],
      ['email', this.#owner?.email ?? UNKNOWN],
    ]);
  }
}

const KNOWN_ROOTS = new Set(['var', 'local', 'data']);
const KNOWN_DATA = new Set(['coder_parameter', 'coder_workspace', 'coder_workspace_owner']);

function split(address: string): [string, string, string] {
  const [root = '', second = '', third = ''] = address.split('.');
  return [root, second, third];
}

function hasUnknown(value: Value): boolean {
  if (value instanceof Unknown) return true;
  if (value instanceof Seq) return value.items.some(hasUnknown);
  return value instanceof Dict && [...value.entries.values()].some(hasUnknown);
}

/** The data source's attributes. `value` is text for every parameter type. */
function parameterValue(row: ParameterRow, value: string): Value {
  return object([
    ['name', row.name],
    ['value', value],
    ['display_name', row.display_name],
    ['description', row.description],
    ['type', row.type],
    ['default', row.default_value],
    ['mutable', row.mutable],
    ['ephemeral', row.ephemeral],
    ['optional', !row.required],
    ['icon', row.icon],
    ['order', row.display_order],
  ]);
}
