// coder_script_order: which scripts of an agent wait for which others. Source of names and rules: the documentation of
// upstream's provider 2.20. The server and its agents get the result as places in the list of the agent's scripts.
import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import { type Script, Script_AfterSchema } from '@ropewalk/wire/proto/provisioner';
import type { Graph } from './graph.ts';
import { blocks, type Instance, labelOf, str, type Values } from './model.ts';

/** Maximum number of scripts that one script waits for. The server has the same limit. */
const MAX_WAITS = 200;
const SELECTOR =
  /^(?:module\.[\w-]+(?:\[[^\]]+\])?(?:\.module\.[\w-]+(?:\[[^\]]+\])?)*|coder_script\.[\w-]+(?:\[[^\]]+\])?)$/;

type Phase = 'start' | 'stop';

/** A script, and the scripts of its agent. */
export interface PlacedScript {
  address: string;
  module: string;
  script: Script;
  among: readonly Script[];
}

interface Selected {
  found: PlacedScript[];
  byModule: boolean;
}

/**
 * Gives each script the others that it waits for. `warn` receives what a rule leaves out.
 * @throws AppError `invalid` that names the data source and the selector
 */
export function orderScripts(
  instances: readonly Instance[],
  placed: readonly PlacedScript[],
  graph: Graph,
  warn: (message: string) => void,
): void {
  const orders = instances.filter(({ mode, type }) => mode === 'data' && type === 'coder_script_order');
  for (const order of orders) {
    for (const rule of blocks(order.values['rule'])) {
      const fail = (why: string): never => {
        throw new AppError('invalid', `${order.address}: ${why}`);
      };
      const select = (key: 'run' | 'after') =>
        texts(rule[key]).map((selector) => selected(selector, order, placed, graph, fail));
      addRule(rule, { run: select('run'), after: select('after') }, order.address, { fail, warn });
    }
  }
  const first = placed.find((one) => isInCircle(one.script, one.among));
  if (first)
    throw new AppError('invalid', `${first.address} waits for itself: the rules of coder_script_order form a circle.`);
}

function selected(
  selector: string,
  order: Instance,
  placed: readonly PlacedScript[],
  graph: Graph,
  fail: (why: string) => never,
): Selected {
  if (!SELECTOR.test(selector))
    fail(
      `${JSON.stringify(selector)} is not the address of a script or a module, such as coder_script.name or module.name.`,
    );
  const target = order.module === '' ? selector : `${order.module}.${selector}`;
  const byModule = selector.startsWith('module.');
  const isBelow = (address: string, ...ends: string[]) =>
    address === target || ends.some((end) => address.startsWith(target + end));
  const found = placed.filter(({ address, module }) => (byModule ? isBelow(module, '.', '[') : isBelow(address, '[')));
  const label = labelOf(target);
  const isKnown = graph.labels.some((name) => (byModule ? name.startsWith(`${label}.`) : name === label));
  // the build may have no instance of a script, for example while the workspace stops
  if (found.length === 0 && !isKnown) fail(`no coder_script has the address ${JSON.stringify(target)}.`);
  for (const { address, script } of found)
    if (script.runOnStart === script.runOnStop)
      fail(`${address} must set exactly one of run_on_start and run_on_stop to be ordered.`);
  return { found, byModule };
}

const phaseOf = ({ script }: PlacedScript): Phase => (script.runOnStart ? 'start' : 'stop');

function addRule(
  rule: Values,
  { run, after }: { run: readonly Selected[]; after: readonly Selected[] },
  address: string,
  { fail, warn }: { fail(why: string): never; warn(message: string): void },
): void {
  const all = [...run, ...after];
  const given = str(rule['phase']);
  const named = new Set(all.filter(({ byModule }) => !byModule).flatMap(({ found }) => found.map(phaseOf)));
  const expanded = new Set(all.flatMap(({ found }) => found.map(phaseOf)));
  if (given === '' && named.size > 1)
    fail('a rule orders scripts that run at the start and scripts that run at the stop.');
  if (given === '' && named.size === 0 && expanded.size > 1)
    fail('the modules of a rule have scripts for the start and for the stop. Set phase.');
  const [phase] = given === '' ? [...named, ...expanded] : [given as Phase];
  if ([...named].some((one) => one !== phase)) fail(`a rule for the ${phase} names scripts that run at another time.`);
  if (given === '' && expanded.size > 1)
    warn(`${address}: a rule leaves out scripts of modules that do not run at the ${phase}.`);
  const inPhase = (list: readonly Selected[]) =>
    list.flatMap(({ found }) => found).filter((one) => phaseOf(one) === phase);
  const anyOutcome = str(rule['requires']) === 'completion';
  for (const { script, among, address: waiting } of inPhase(run))
    for (const other of inPhase(after)) {
      if (other.among !== among) fail(`${waiting} and ${other.address} belong to different agents.`);
      addWait(script, among.indexOf(other.script), anyOutcome);
      if (script.after.length > MAX_WAITS) fail(`${waiting} waits for more than ${MAX_WAITS} scripts.`);
    }
}

/** Of two rules for the same scripts, the one that requires success counts. */
function addWait(script: Script, place: number, anyOutcome: boolean): void {
  const known = script.after.find((one) => one.script === place);
  if (known) known.anyOutcome &&= anyOutcome;
  else script.after.push(create(Script_AfterSchema, { script: place, anyOutcome }));
}

function isInCircle(script: Script, among: readonly Script[]): boolean {
  const seen = new Set<Script>();
  const next = [script];
  for (let one = next.pop(); one; one = next.pop())
    for (const { script: place } of one.after) {
      const other = among[place]!;
      if (other === script) return true;
      if (!seen.has(other)) next.push(other);
      seen.add(other);
    }
  return false;
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];
