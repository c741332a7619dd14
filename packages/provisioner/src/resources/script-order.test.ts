import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Graph } from './graph.ts';
import { type Instance, labelOf } from './model.ts';
import { describe } from './resources.ts';

function instance(mode: Instance['mode'], address: string, values: Record<string, unknown>): Instance {
  const own = /^(?:(module\..*?)\.)?(?:data\.)?(coder_\w+|x)\.([\w-]+)(?:\[.*\])?$/.exec(address)!;
  return { mode, type: own[2]!, name: own[3]!, address, label: labelOf(address), module: own[1] ?? '', values };
}

const start = (address: string, more = {}) =>
  instance('managed', address, { agent_id: '1', script: address, run_on_start: true, ...more });
const stop = (address: string) => start(address, { run_on_start: false, run_on_stop: true });
const order = (rule: object, address = 'data.coder_script_order.o') =>
  instance('data', address, { rule: [{ requires: 'success', phase: null, ...rule }] });

/** For each script that waits, what it waits for, with `~` if any outcome is enough. */
function waits(instances: Instance[], warnings: string[] = [], unbuilt: string[] = []): Record<string, string[]> {
  const agents = ['1', '2'].map((id) => instance('managed', `coder_agent.a${id}`, { id }));
  const machines = ['1', '2'].map((id) => instance('managed', `x.m${id}`, {}));
  const labels = [...agents, ...machines, ...instances].map(({ label }) => label).concat(unbuilt);
  const lines = [...new Set(labels)].map((label) => `"[root] ${label} (expand)" [label = "${label}", shape = "box"]`);
  const edges = ['1', '2'].map((id) => `"[root] x.m${id} (expand)" -> "[root] coder_agent.a${id} (expand)"`);
  const graph = Graph.parse(['digraph {', ...lines, ...edges, '}'].join('\n'));
  const { resources } = describe({ instances: [...agents, ...machines, ...instances] }, graph, (text) =>
    warnings.push(text),
  );
  const found: Record<string, string[]> = {};
  for (const { scripts } of resources.flatMap((one) => one.agents))
    for (const { script, after } of scripts)
      if (after.length > 0)
        found[script] = after.map((one) => `${one.anyOutcome ? '~' : ''}${scripts[one.script]!.script}`);
  return found;
}

test('gives scripts those that they wait for, by addresses relative to the module of the rule', () => {
  const [a, b, c] = ['coder_script.a', 'coder_script.b[0]', 'coder_script.b["x"]'].map((address) => start(address));
  assert.deepEqual(waits([a!, b!, c!, order({ run: ['coder_script.b'], after: ['coder_script.a'] })]), {
    'coder_script.b[0]': ['coder_script.a'],
    'coder_script.b["x"]': ['coder_script.a'],
  });
  const inner = ['module.m[0].coder_script.s', 'module.m[0].module.n.coder_script.t', 'module.m[1].coder_script.s'];
  const all = [a!, ...inner.map((address) => start(address))];
  const completion = { requires: 'completion' };
  assert.deepEqual(waits([...all, order({ run: ['coder_script.a'], after: ['module.m'], ...completion })]), {
    'coder_script.a': inner.map((one) => `~${one}`),
  });
  assert.deepEqual(
    waits(
      [
        ...all,
        order({ run: ['coder_script.s'], after: ['module.n'] }, 'module.m[0].data.coder_script_order.o'),
        order({ run: ['coder_script.a'], after: ['module.m[1]'] }),
        order({ run: ['coder_script.a'], after: ['module.m[1].module.none'] }, 'data.coder_script_order.p'),
      ],
      [],
      ['module.m.module.none.coder_script.gone'],
    ),
    {
      'module.m[0].coder_script.s': ['module.m[0].module.n.coder_script.t'],
      'coder_script.a': ['module.m[1].coder_script.s'],
    },
  );
});

test('keeps the stricter of two rules, and infers the phase', () => {
  const [a, b] = [start('coder_script.a'), start('coder_script.b')];
  const rule = { run: ['coder_script.b'], after: ['coder_script.a'] };
  assert.deepEqual(
    waits([a, b, order({ ...rule, requires: 'completion' }), order(rule, 'data.coder_script_order.p')]),
    {
      'coder_script.b': ['coder_script.a'],
    },
  );
  const mixed = [start('module.m.coder_script.s'), stop('module.m.coder_script.e'), stop('coder_script.last')];
  const warnings: string[] = [];
  const last = { run: ['coder_script.last'], after: ['module.m'] };
  assert.deepEqual(waits([...mixed, order(last)], warnings), { 'coder_script.last': ['module.m.coder_script.e'] });
  assert.match(warnings.join(), /leaves out scripts of modules that do not run at the stop/);
  const quiet: string[] = [];
  waits([...mixed, order({ ...last, phase: 'stop' })], quiet);
  assert.deepEqual(quiet, []);
});

test('names what is wrong with a rule', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => start(`coder_script.${name}`));
  const rejects = (why: RegExp, instances: Instance[], ...rules: object[]) =>
    assert.throws(
      () => waits([...instances, ...rules.map((rule, at) => order(rule, `data.coder_script_order.o${at}`))]),
      why,
    );
  const rule = (run: string, after: string, more = {}) => ({
    run: [`coder_script.${run}`],
    after: [`coder_script.${after}`],
    ...more,
  });
  rejects(/no coder_script has the address "coder_script.none"/, [a!], rule('a', 'none'));
  rejects(/"a" is not the address of a script or a module/, [a!], { run: ['a'], after: ['coder_script.a'] });
  rejects(/waits for itself/, [a!], rule('a', 'a'));
  rejects(/waits for itself/, [a!, b!, c!], rule('a', 'b'), rule('b', 'c'), rule('c', 'a'));
  rejects(/belong to different agents/, [a!, start('coder_script.b', { agent_id: '2' })], rule('a', 'b'));
  const cron = start('coder_script.b', { run_on_start: false, cron: '0 0 * * * *' });
  rejects(/must set exactly one of run_on_start and run_on_stop/, [a!, cron], rule('a', 'b'));
  rejects(/run at the start and scripts that run at the stop/, [a!, stop('coder_script.b')], rule('a', 'b'));
  rejects(/a rule for the stop names scripts/, [a!, b!], rule('a', 'b', { phase: 'stop' }));
  const mixed = [start('module.m.coder_script.s'), stop('module.m.coder_script.e'), stop('module.n.coder_script.e')];
  rejects(/Set phase/, mixed, { run: ['module.m'], after: ['module.n'] });
});
