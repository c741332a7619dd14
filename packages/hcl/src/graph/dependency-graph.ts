import type { Body, Expr } from '../ast.ts';
import {
  addressOf,
  blocksOf,
  type ConfigBlock,
  type Configuration,
  isJson,
  type Template,
} from '../program/configuration.ts';
import { MAX_MODULE_DEPTH, MAX_MODULES } from '../program/program.ts';
import { providerAddress, providerOf } from '../program/providers.ts';
import { checkKnown, decide, type Undecided } from '../program/undecided.ts';
import { expressionsOf, traversals } from '../references.ts';
import { EvaluationError } from '../values.ts';
import { AcyclicGraph } from './acyclic-graph.ts';

/**
 * The graph that `terraform graph -type=plan` (1.9 or newer) prints for a template, in the same format. It has the same
 * nodes and edges apart from the root, checks, and providers that depend on nothing: a module has one node that its parts
 * depend on and one that depends on all of them, and an edge is left out if a longer path replaces it. Never throws because
 * of a template's content.
 */
export function dependencyGraph(template: Template): string | Undecided {
  return decide(() => {
    const builder = new Builder(template);
    return builder.graph.withoutDetours().dot(builder.labels);
  });
}

/** A module by the path of its calls, whatever the number of its instances. */
interface Scope {
  configuration: Configuration;
  dir: string;
  calls: readonly string[];
  /** `module.a.module.b.`. Empty for the root module. */
  prefix: string;
  called: ReadonlyMap<string, Scope>;
}

class Builder {
  readonly graph = new AcyclicGraph();
  /** The nodes that have a label, which is their address. */
  readonly labels = new Map<string, string>();
  readonly #template: Template;
  readonly #providers = new Set<string>();
  #modules = 0;

  constructor(template: Template) {
    this.#template = template;
    const configuration = template.folder('.');
    if (!configuration) return;
    const scope = this.#scope(configuration, '.', []);
    this.#addProviders(scope);
    this.#add(scope);
  }

  /** The providers whose configuration refers to something. Others have no effect on the order. */
  #addProviders(scope: Scope): void {
    for (const { type, labels, body, file, line } of scope.configuration.others) {
      if (type !== 'provider') continue;
      const on = referred(scope, body);
      if (on.length === 0) continue;
      const alias = body.attributes.get('alias')?.value;
      if (alias && !(alias.kind === 'literal' && typeof alias.value === 'string'))
        throw new EvaluationError(`${file}:${line}: the alias is not a text.`);
      const id = providerNode(scope.configuration, labels[0] ?? '', alias ? String(alias.value) : undefined);
      this.#providers.add(id);
      for (const other of on) this.graph.link(id, other);
    }
  }

  *#providerOf({ configuration }: Scope, block: ConfigBlock): Generator<string> {
    const { name, alias } = providerOf(block);
    const id = providerNode(configuration, name, alias);
    if (this.#providers.has(id)) yield id;
  }

  #scope(configuration: Configuration, dir: string, calls: readonly string[]): Scope {
    if (++this.#modules > MAX_MODULES || calls.length > MAX_MODULE_DEPTH)
      throw new EvaluationError('The template has too many modules.');
    check(configuration, calls);
    const called = new Map<string, Scope>();
    for (const [name, call] of configuration.modules) {
      const place = this.#template.called(dir, calls, call);
      if (!place) throw new EvaluationError(`Module ${JSON.stringify(name)} is not loaded.`);
      if (call.body.attributes.has('providers'))
        throw new EvaluationError(`Module ${JSON.stringify(name)} has other providers.`);
      called.set(name, this.#scope(place.configuration, place.dir, [...calls, name]));
    }
    const prefix = calls.map((name) => `module.${name}.`).join('');
    return { configuration, dir, calls, prefix, called };
  }

  /** Adds what a module has, and returns its nodes. */
  #add(scope: Scope, caller?: { scope: Scope; call: ConfigBlock }): string[] {
    const { configuration, prefix } = scope;
    const expand = caller && `${prefix.slice(0, -1)} (expand)`;
    const nodes: string[] = [];
    const add = (id: string, label: string | undefined, on: Iterable<string>) => {
      nodes.push(id);
      if (label !== undefined) this.labels.set(id, label);
      this.graph.add(id);
      if (expand) this.graph.link(id, expand);
      for (const other of on) this.graph.link(id, other);
    };
    for (const [name, variable] of configuration.variables) {
      const argument = caller?.call.body.attributes.get(name)?.value;
      const id = variableNode(scope, name);
      add(id, caller ? undefined : id, caller && argument ? nodesOf(caller.scope, argument) : []);
      const whole = validatedNode(scope, name, variable);
      const checks = variable.body.blocks.flatMap((inner) => referred(scope, inner.body));
      if (whole !== id) add(whole, undefined, [id, ...checks.filter((other) => other !== whole)]);
    }
    for (const [name, expr] of configuration.locals) add(localNode(scope, name), undefined, nodesOf(scope, expr));
    for (const [name, { body }] of configuration.outputs)
      add(outputNode(scope, name), undefined, referred(scope, body));
    for (const block of blocksOf(configuration)) {
      const label = `${prefix}${addressOf(block)}`;
      const id = blockNode(scope, addressOf(block));
      const on = [...referred(scope, block.body), ...this.#providerOf(scope, block)];
      add(
        id,
        label,
        on.filter((other) => other !== id),
      );
    }
    for (const [name, call] of configuration.modules) {
      const { attributes } = call.body;
      const on = ['count', 'for_each', 'depends_on'].flatMap((key) => {
        const expr = attributes.get(key)?.value;
        return expr ? [...nodesOf(scope, expr)] : [];
      });
      const inner = scope.called.get(name)!;
      add(`${prefix}module.${name} (expand)`, undefined, on);
      const parts = this.#add(inner, { scope, call });
      add(closeNode(scope, name), undefined, [`${prefix}module.${name} (expand)`, ...parts]);
    }
    return nodes;
  }
}

/** @throws EvaluationError if the graph may depend on more than this module's references */
function check(configuration: Configuration, calls: readonly string[]): void {
  checkKnown(configuration);
  const refers = (expr: Expr) => traversals(expr).length > 0;
  for (const { type, body, file, line } of configuration.others)
    if (type === 'provider' && calls.length > 0 && [...expressionsOf(body)].some(refers))
      throw new EvaluationError(`${file}:${line}: the configuration of a module's provider refers to something.`);
  const { modules, outputs } = configuration;
  for (const { file, line, body } of [...blocksOf(configuration), ...modules.values(), ...outputs.values()])
    if (isJson(file) && (body.attributes.has('depends_on') || body.attributes.has('lifecycle')))
      throw new EvaluationError(`${calls.join('.')} ${file}:${line}: an order in JSON.`);
}

const variableNode = ({ prefix }: Scope, name: string) =>
  prefix === '' ? `var.${name}` : `${prefix}var.${name} (expand)`;
/** What depends on a variable depends on this node. */
function validatedNode(scope: Scope, name: string, { body }: ConfigBlock): string {
  const hasNode = body.blocks.some(({ type }) => type === 'validation');
  return hasNode ? `${scope.prefix}var.${name} (validation)` : variableNode(scope, name);
}
const localNode = ({ prefix }: Scope, name: string) => `${prefix}local.${name} (expand)`;
const outputNode = ({ prefix }: Scope, name: string) => `${prefix}output.${name} (expand)`;
const blockNode = ({ prefix }: Scope, address: string) => `${prefix}${address} (expand)`;
const closeNode = ({ prefix }: Scope, name: string) => `${prefix}module.${name} (close)`;

/** A provider of the root module, which all modules share, by its address. */
const providerNode = (configuration: Configuration, name: string, alias: string | undefined): string =>
  `provider["${providerAddress(configuration, name)}"]${alias === undefined ? '' : `.${alias}`}`;

const referred = (scope: Scope, body: Body): string[] =>
  [...expressionsOf(body)].flatMap((expr) => [...nodesOf(scope, expr)]);

/** The nodes that an expression refers to. What is not declared is left out: Terraform rejects the template. */
function* nodesOf(scope: Scope, expr: Expr): Generator<string> {
  const { variables, locals, resources, data } = scope.configuration;
  for (const { address } of traversals(expr)) {
    const [root = '', name = '', third = ''] = address.split('.');
    if (root === 'resource') throw new EvaluationError('The template has references that begin with "resource".');
    const variable = root === 'var' ? variables.get(name) : undefined;
    if (variable) yield validatedNode(scope, name, variable);
    else if (root === 'local' && locals.has(name)) yield localNode(scope, name);
    else if (root === 'data' && data.get(name)?.has(third)) yield blockNode(scope, address);
    else if (root === 'module') yield* moduleNodes(scope, name, third);
    else if (resources.get(root)?.has(name)) yield blockNode(scope, address);
  }
}

function* moduleNodes(scope: Scope, name: string, output: string): Generator<string> {
  const called = scope.called.get(name);
  if (!called) return;
  if (output === '') yield closeNode(scope, name);
  else if (called.configuration.outputs.has(output)) yield outputNode(called, output);
}
