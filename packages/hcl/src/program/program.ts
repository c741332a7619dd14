import type { Work } from '../evaluate.ts';
import type { Term } from '../lazy.ts';
import { type Dict, EvaluationError, UNKNOWN, Unknown, type Value } from '../values.ts';
import { type ConfigBlock, emptyConfiguration, type Template } from './configuration.ts';
import { type BlockInstance, ModuleInstance, type ModulePlace, type ModuleProgram, type Place } from './instances.ts';
import { newProgress, type Progress } from './lazy-parts.ts';

export const MAX_MODULES = 500;
export const MAX_MODULE_DEPTH = 12;

/** What a template's own files do not say. */
export interface Surroundings {
  /** The value of a variable of the root module. Undefined: its default. */
  variable(name: string): Term | undefined;
  /** An attribute that a provider decides. Undefined: what the configuration says, else unknown. */
  attribute(instance: BlockInstance, name: string): Term | undefined;
  /** The names of all attributes of a kind of block, if they are known. */
  attributeNames(instance: BlockInstance): Iterable<string> | undefined;
  /** The attributes of a data source that Terraform has read before, by address. */
  read(address: string): Dict | undefined;
}

/**
 * One evaluation of a template: its modules with their blocks, each part evaluated when something reads it. So blocks
 * may refer to each other in any order, and parts that nobody reads cost nothing.
 */
export class Program implements ModuleProgram {
  readonly template: Template;
  readonly progress: Progress;
  readonly root: ModuleInstance;
  /** Module calls whose files are not there. */
  readonly missing = new Map<ConfigBlock, ModuleInstance>();
  readonly #around: Surroundings;
  readonly #places = new Map<string, Place | undefined>();
  #modules = 0;

  constructor(template: Template, around: Surroundings, work: Work) {
    this.template = template;
    this.progress = newProgress(work);
    this.#around = around;
    const configuration = template.folder('.') ?? EMPTY;
    const place = { configuration, dir: '.', address: '', calls: [], call: undefined, counted: true };
    this.root = this.module(place, (name) => around.variable(name));
  }

  /** All modules, each before those that it calls. */
  modules(): ModuleInstance[] {
    const all = [this.root];
    // the list grows while it is read
    for (const module of all) all.push(...module.children());
    return all;
  }

  module(
    { configuration, ...at }: ModulePlace & Pick<Place, 'configuration'>,
    input: (name: string) => Term | undefined,
  ): ModuleInstance {
    if (++this.#modules > MAX_MODULES)
      throw new EvaluationError(`The template has more than ${MAX_MODULES} module instances.`);
    return new ModuleInstance(this, configuration, at, input);
  }

  /** The folder of a called module. Undefined, and recorded as missing, if it is not there. */
  folderOf(caller: ModuleInstance, call: ConfigBlock): Place | undefined {
    const calls = [...caller.calls, call.labels[0]!];
    const key = calls.join('.');
    if (calls.length > MAX_MODULE_DEPTH)
      throw new EvaluationError(`Modules are nested deeper than ${MAX_MODULE_DEPTH} levels.`);
    if (!this.#places.has(key)) this.#places.set(key, this.template.called(caller.dir, caller.calls, call));
    const place = this.#places.get(key);
    if (!place) this.missing.set(call, caller);
    return place;
  }

  attributeOf(instance: BlockInstance, name: string): Term {
    const provided = this.#around.attribute(instance, name);
    if (provided !== undefined) return provided;
    const configured = instance.configured(name);
    if (configured !== undefined && !(configured instanceof Unknown)) return configured;
    const before: Value | undefined = this.#around.read(instance.address)?.entries.get(name);
    return before ?? configured ?? UNKNOWN;
  }

  attributeNames(instance: BlockInstance): Iterable<string> {
    const known = this.#around.attributeNames(instance);
    if (known) return known;
    const before = this.#around.read(instance.address)?.entries.keys() ?? [];
    return new Set([...instance.body.body.attributes.keys(), ...instance.body.innerTypes(), ...before]);
  }
}

const EMPTY = emptyConfiguration();
