import type { Body } from '../ast.ts';
import { newWork, type Work } from '../evaluate.ts';
import { force } from '../lazy.ts';
import { type GivenVariable, PlannedValues, surroundings } from '../preview/surroundings.ts';
import { addressOf, blocksOf, type ConfigBlock, isJson, type Template } from '../program/configuration.ts';
import type { BlockInstance, ModuleInstance } from '../program/instances.ts';
import { Program, type Surroundings } from '../program/program.ts';
import { checkKnown, decide, type Undecided } from '../program/undecided.ts';
import { EvaluationError, UNKNOWN, whollyKnown } from '../values.ts';
import { TransitionDependence } from './dependence.ts';

/** Which instances of a start's plan exist while the workspace is stopped. */
export interface Persistence {
  /** Whether the plan of a start has the instances that this evaluation found for a start. Takes their addresses. */
  agrees(planned: readonly string[]): boolean;
  /** Whether an instance of that plan is also part of the plan of a stop, with the same values. Takes its address. */
  persists(address: string): boolean;
}

/**
 * Finds from a template which of its resources exist only while the workspace runs. So an import needs no second plan.
 * It decides only if the plan of a stop would differ from that of a start in nothing but missing instances: no
 * remaining block has another value, and every local, input and output that has one can be evaluated here.
 * Never throws because of a template's content.
 */
export function persistence(
  template: Template,
  variables: readonly GivenVariable[],
  work: Work = newWork(),
): Persistence | Undecided {
  return decide(() => {
    const program = (transition: 'start' | 'stop') =>
      new Program(template, importSurroundings(template, variables, transition, work), work);
    const start = program('start');
    const stop = program('stop');
    checkStop(stop);
    return comparison(start, stop);
  });
}

const NOBODY = {
  ...{ id: '', name: '', full_name: '', email: '', login_type: '', ssh_public_key: '' },
  ...{ groups: [], rbac_roles: [] },
};

/** What the platform's data sources say in an import's plan, as far as it can be known. */
function importSurroundings(
  template: Template,
  variables: readonly GivenVariable[],
  transition: 'start' | 'stop',
  work: Work,
): Surroundings {
  const around = surroundings(template, new PlannedValues({}), { inputs: {}, owner: NOBODY, variables }, work);
  return {
    ...around,
    attribute(instance, name) {
      const { type } = instance;
      if (instance.block.type !== 'data') return undefined;
      if (type === 'coder_workspace_owner') return UNKNOWN;
      if (type === 'coder_workspace' && name === 'transition') return transition;
      if (type === 'coder_workspace' && name === 'start_count') return Number(transition === 'start');
      return around.attribute(instance, name);
    },
  };
}

const undecided = (where: string): never => {
  throw new EvaluationError(`${where} depends on the transition.`);
};

/** @throws EvaluationError if the plan of a stop may differ in more than missing instances */
function checkStop(program: Program): void {
  const depends = new TransitionDependence(program);
  const modules = program.modules();
  for (const module of modules) {
    const { configuration } = module;
    checkKnown(configuration);
    for (const { body, file, line } of configuration.others) checkSame(module, body, `${file}:${line}`, depends);
    for (const [name, expr] of configuration.locals)
      if (depends.of(module, expr)) known(module.inside(`local.${name}`), () => module.evaluate(expr));
    for (const [name, { body }] of configuration.outputs)
      checkOutput(module, body, module.inside(`output.${name}`), depends);
    for (const { body, labels } of configuration.variables.values())
      for (const inner of body.blocks) checkSame(module, inner.body, `var.${labels[0]}`, depends);
    for (const call of configuration.modules.values()) checkCall(module, call, depends);
    for (const block of blocksOf(configuration)) checkBlock(module, block, depends);
  }
  const [call] = program.missing.keys();
  if (call) throw new EvaluationError(`Module ${JSON.stringify(call.labels[0])} is not loaded.`);
}

function known(where: string, evaluate: () => ReturnType<ModuleInstance['evaluate']>): void {
  if (!whollyKnown(force(evaluate()))) throw new EvaluationError(`${where} is not known before Terraform runs.`);
}

/** An output's value may change if it can be evaluated, but nothing else in its block. */
function checkOutput(module: ModuleInstance, body: Body, where: string, depends: TransitionDependence): void {
  checkSame(module, body, where, depends, ['value']);
  const expr = body.attributes.get('value')?.value;
  if (expr && depends.of(module, expr)) known(where, () => module.evaluate(expr));
}

function checkSame(
  module: ModuleInstance,
  { attributes, blocks }: Body,
  where: string,
  depends: TransitionDependence,
  except: readonly string[] = [],
): void {
  for (const { name, value } of attributes.values())
    if (!except.includes(name) && depends.of(module, value)) undecided(`${where}: ${name}`);
  for (const { type, body } of blocks) checkSame(module, body, `${where}: ${type}`, depends);
}

function checkCall(caller: ModuleInstance, { body, labels, file }: ConfigBlock, depends: TransitionDependence): void {
  const where = caller.inside(`module.${labels[0]}`);
  const order = body.attributes.get('depends_on');
  if (order && (isJson(file) || depends.of(caller, order.value))) undecided(`${where}: depends_on`);
  const changing = [...body.attributes.values()].filter(({ value }) => depends.of(caller, value));
  for (const module of caller.childrenOf(labels[0]!)) {
    if (!module.counted && depends.ofExpansion(caller, body)) undecided(`${where}: the number of its instances`);
    for (const { name } of changing)
      if (module.configuration.variables.has(name))
        known(module.inside(`var.${name}`), () => module.variable(name) ?? UNKNOWN);
  }
}

function checkBlock(module: ModuleInstance, block: ConfigBlock, depends: TransitionDependence): void {
  const { type, labels, body, file } = block;
  const isData = type === 'data';
  const where = module.inside(addressOf(block));
  if (isData && labels[0] === 'external') throw new EvaluationError(`${where}: its program may know the transition.`);
  const instances = module.instancesOf(block);
  if (depends.ofExpansion(module, body) && instances.some(({ counted }) => !counted))
    throw new EvaluationError(`${where}: the number of its instances is not known before Terraform runs.`);
  if (instances.length === 0) return;
  // an order changes when a data source is read, but no value of a resource
  if (isData && isJson(file) && body.attributes.has('depends_on')) undecided(`${where}: depends_on`);
  checkSame(module, body, where, depends, ['count', 'for_each', ...(isData ? [] : ['depends_on'])]);
}

/** The blocks and module calls whose number of instances depends on the transition, with their instances at a start. */
function comparison(start: Program, stop: Program): Persistence {
  const depends = new TransitionDependence(start);
  const stopped = new Map(stop.modules().map((module) => [module.address, module]));
  /** The addresses of instances at a start, by that of their block, without those of vanished modules. */
  const expected = new Map<string, string[]>();
  const vanishing = new Set<string>();
  const compare = (base: string, before: readonly string[], after: readonly string[]) => {
    const appeared = after.find((address) => !before.includes(address));
    if (appeared !== undefined) throw new EvaluationError(`${appeared} exists only while the workspace is stopped.`);
    expected.set(base, [...before]);
    for (const address of before) if (!after.includes(address)) vanishing.add(address);
  };
  for (const module of start.modules()) {
    const same = stopped.get(module.address);
    const addresses = (instances: readonly Pick<BlockInstance, 'address'>[]) => instances.map(({ address }) => address);
    for (const call of module.configuration.modules.values()) {
      if (!depends.ofExpansion(module, call.body)) continue;
      requireCounted(module);
      const name = call.labels[0]!;
      compare(
        module.inside(`module.${name}`),
        addresses(module.childrenOf(name)),
        addresses(same?.childrenOf(name) ?? []),
      );
    }
    for (const block of blocksOf(module.configuration)) {
      if (!depends.ofExpansion(module, block.body)) continue;
      requireCounted(module);
      const base = module.inside(addressOf(block));
      const before = module.instancesOf(block);
      if (before.some(({ counted }) => !counted)) undecided(base);
      compare(base, addresses(before), addresses(same?.instancesOf(block) ?? []));
    }
  }
  return {
    agrees: (planned) => [...expected].every(([base, addresses]) => agree(planned, base, addresses)),
    persists: (address) => ![...vanishing].some((gone) => isInside(address, gone)),
  };
}

function requireCounted(module: ModuleInstance): void {
  if (!module.counted)
    throw new EvaluationError(`${module.address}: only Terraform knows the number of its instances.`);
}

const isInside = (address: string, base: string): boolean => address === base || address.startsWith(`${base}.`);

/** Whether what is planned of a block or a module call are these instances. A planned module may have no resources. */
function agree(planned: readonly string[], base: string, expected: readonly string[]): boolean {
  const ofBase = planned.filter((address) => isInside(address, base) || address.startsWith(`${base}[`));
  const isCall = /(^|\.)module\.[^.[\]]+$/.test(base);
  return (
    ofBase.every((address) => expected.some((one) => isInside(address, one))) &&
    (isCall || expected.every((one) => ofBase.includes(one)))
  );
}
