import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppSharingLevel, ParameterFormType } from '@ropewalk/wire/proto/provisioner';
import { Graph } from './graph.ts';
import { type Instance, labelOf, readPlan, readState, stateHeader, stateProviders } from './model.ts';
import { describe, replacements } from './resources.ts';

/** A graph in terraform's format. `a > b` means that a depends on b. */
function graph(...edges: string[]): Graph {
  const nodes = new Set(edges.flatMap((edge) => edge.split(' > ')));
  const id = (label: string) => `"[root] ${label} (expand)"`;
  return Graph.parse(
    [
      'digraph {',
      ...[...nodes].map((label) => `\t\t${id(label)} [label = "${label}", shape = "box"]`),
      ...edges.filter((edge) => edge.includes(' > ')).map((edge) => `\t\t${edge.split(' > ').map(id).join(' -> ')}`),
      '}',
    ].join('\n'),
  );
}

function managed(label: string, values: Record<string, unknown> = {}, module = ''): Instance {
  const [type, name] = label.split('.').slice(-2) as [string, string];
  const address = module === '' ? label : `${module}.${type}.${name}`;
  return { mode: 'managed', type, name, address, label, module, values };
}

const data = (type: string, name: string, values: Record<string, unknown>): Instance => ({
  ...managed(`${type}.${name}`, values),
  address: `data.${type}.${name}`,
  label: `data.${type}.${name}`,
  mode: 'data',
});

const nothing = () => {};
const agentsOf = (instances: Instance[], edges: Graph, warn: (text: string) => void = nothing) =>
  describe({ instances }, edges, warn).resources.map(({ name, agents }) => [name, agents.map((agent) => agent.name)]);

test('removes the instance keys of an address', () => {
  assert.equal(labelOf('module.a["x.y]"].module.b[0].aws_instance.c["d\\"e"]'), 'module.a.module.b.aws_instance.c');
});

test('assigns an agent to the nearest resource that depends on it, and among equals to the smallest label', () => {
  const agent = managed('coder_agent.dev', { id: '1', auth: 'token', token: 't' });
  const [near, far, other] = ['x.near', 'x.far', 'x.also'].map((label) => managed(label));
  const edges = ['local.s > coder_agent.dev', 'x.near > local.s', 'x.also > local.s', 'x.far > x.near'];
  assert.deepEqual(agentsOf([agent, near!, far!, other!], graph(...edges)), [
    ['near', []],
    ['far', []],
    ['also', ['dev']],
  ]);
  // The nearest resource in the graph has no instance in this build.
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  assert.deepEqual(agentsOf([agent, far!], graph(...edges), warn), [['far', ['dev']]]);
  assert.deepEqual(agentsOf([agent], graph(...edges), warn), []);
  assert.match(warnings[0]!, /Agent "dev" is left out/);
});

test('finds an agent in a module with instances by its label', () => {
  const inside = 'module.m.coder_agent.dev';
  const instances = [managed(inside, { id: '1' }, 'module.m[0]'), managed('module.m.x.vm', {}, 'module.m[0]')];
  const { resources } = describe({ instances }, graph(`module.m.x.vm > ${inside}`), nothing);
  assert.deepEqual([resources[0]?.modulePath, resources[0]?.agents.length], ['module.m[0]', 1]);
});

test('an agent of several instances of a resource stays with all of them, one of several module instances moves on', () => {
  const agent = managed('coder_agent.dev', { id: '1' });
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  const counted = { ...managed('x.vm'), address: 'x.vm[0]' };
  const both = [counted, { ...counted, address: 'x.vm[1]' }];
  assert.deepEqual(agentsOf([agent, ...both], graph('x.vm > coder_agent.dev'), warn), [
    ['vm', ['dev']],
    ['vm', ['dev']],
  ]);
  assert.match(warnings.pop()!, /used by 2 instances of x\.vm/);

  const inside = [0, 1].map((i) => managed('module.m.x.vm', {}, `module.m[${i}]`));
  const edges = ['module.m.x.vm > coder_agent.dev', 'x.far > module.m.x.vm'];
  assert.deepEqual(agentsOf([agent, ...inside], graph(...edges), warn), [
    ['vm', []],
    ['vm', []],
  ]);
  assert.match(warnings.pop()!, /left out/);
  assert.deepEqual(agentsOf([agent, ...inside, managed('x.far')], graph(...edges), warn).at(-1), ['far', ['dev']]);
});

test('rejects repeated agents, slugs, metadata and parameters, and two default presets', () => {
  const edges = graph('x.vm > coder_agent.a', 'coder_metadata.m > x.vm', 'coder_metadata.n > x.vm');
  const refuses = (instances: Instance[], why: RegExp) =>
    assert.throws(() => describe({ instances }, edges, nothing), why);
  const agent = managed('coder_agent.a', { id: '1' });
  refuses([agent, managed('module.m.coder_agent.A', { id: '2' })], /duplicate agent name/);
  refuses([managed('coder_agent.my_agent', { id: '1' })], /agent name "my_agent" is invalid/);
  const app = (name: string) => managed(`coder_app.${name}`, { id: name, agent_id: '1', slug: 'same' });
  refuses([agent, app('a'), app('b')], /duplicate app slug/);
  refuses([managed('coder_app.a', { id: 'a', slug: 'Bad Slug' })], /app slug "Bad Slug" is invalid/);
  refuses([managed('x.vm'), managed('coder_metadata.m'), managed('coder_metadata.n')], /duplicate metadata/);
  const parameter = (name: string) => data('coder_parameter', name, { name: 'same' });
  refuses([parameter('a'), parameter('b')], /duplicate parameter/);
  const indexed = (instance: Instance, i: number) => ({ ...instance, address: `${instance.address}[${i}]` });
  refuses([indexed(parameter('a'), 0), indexed(parameter('a'), 1)], /data\.coder_parameter\.a\[0\] and .*a\[1\]/);
  // read before the plan, and planned
  assert.equal(describe({ instances: [parameter('a'), parameter('a')] }, edges, nothing).parameters.length, 1);
  const named = (label: string) => data('coder_workspace_preset', label, { name: 'same' });
  refuses([named('a'), named('b')], /duplicate preset/);
  const preset = (name: string) => data('coder_workspace_preset', name, { name, default: true });
  refuses([preset('a'), preset('b')], /1 default preset/);
});

test('instance identity uses the id from the template, else the id of the machine', () => {
  const agent = managed('coder_agent.dev', { id: '1', auth: 'aws-instance-identity' });
  const machine = managed('aws_instance.vm', { id: 'i-123', instance_type: 't3.micro' });
  const edges = graph('aws_instance.vm > coder_agent.dev');
  const [resource] = describe({ instances: [agent, machine] }, edges, nothing).resources;
  assert.deepEqual(resource?.agents[0]?.auth, { case: 'instanceId', value: 'i-123' });
  assert.equal(resource?.instanceType, 't3.micro');
  const given = managed('coder_agent_instance.i', { agent_id: '1', instance_id: 'i-9' });
  const [again] = describe({ instances: [agent, machine, given] }, edges, nothing).resources;
  assert.deepEqual(again?.agents[0]?.auth, { case: 'instanceId', value: 'i-9' });
});

test('merges variables of one name by their merge strategy', () => {
  const agent = managed('coder_agent.a', { id: '1' });
  const env = (name: string, value: string, merge?: string) =>
    managed(`coder_env.${name}`, { agent_id: '1', name: 'PATH', value, merge_strategy: merge ?? null });
  const edges = graph('x.vm > coder_agent.a');
  const merged = (...envs: Instance[]) =>
    describe({ instances: [agent, managed('x.vm'), ...envs] }, edges, nothing)
      .resources.flatMap(({ agents }) => agents)
      .flatMap(({ extraEnvs }) => extraEnvs.map(({ name, value }) => `${name}=${value}`));
  assert.deepEqual(merged(env('a', '/a'), env('b', '/b')), ['PATH=/b']);
  assert.deepEqual(merged(env('a', '/a'), env('b', '/b', 'replace')), ['PATH=/b']);
  assert.deepEqual(merged(env('a', '/a'), env('b', '/b', 'append'), env('c', '/c', 'prepend')), ['PATH=/c:/a:/b']);
  assert.deepEqual(merged(env('a', ''), env('b', '/b', 'append'), env('c', '/c', 'prepend')), ['PATH=/c:/b']);
  assert.throws(() => merged(env('a', '/a'), env('b', '/b', 'error')), /coder_env\.b: another coder_env .*"PATH"/);
});

test('environment variables and dev containers are resources too, and an AI task needs no parameter for its prompt', () => {
  const instances = [managed('coder_env.e', { agent_id: '1', name: 'A', value: 'b' }), managed('coder_devcontainer.d')];
  const names = describe({ instances }, graph(), nothing).resources.map(({ name }) => name);
  assert.deepEqual(names, ['e', 'd']);
  const task = graph('coder_ai_task.t');
  const planned = managed('coder_ai_task.t', { id: 't' });
  assert.doesNotThrow(() => describe({ instances: [] }, task, nothing), 'a deleted workspace');
  const found = describe({ instances: [planned] }, task, nothing);
  assert.equal(found.hasAiTasks, true);
});

test('a state: ignores deposed instances, and rejects other versions and incomplete states', () => {
  const state = {
    version: 4,
    serial: 5,
    lineage: 'l',
    resources: [
      {
        module: 'module.m["k"]',
        mode: 'managed',
        type: 'x',
        name: 'vm',
        instances: [
          { index_key: 0, attributes: { id: '1' } },
          { attributes: { id: '0' }, deposed: 'abc' },
        ],
      },
    ],
  };
  const bytes = Buffer.from(JSON.stringify(state));
  assert.deepEqual(
    readState(bytes).instances.map(({ address, label, module, values }) => [address, label, module, values['id']]),
    [['module.m["k"].x.vm[0]', 'module.m.x.vm', 'module.m["k"]', '1']],
  );
  assert.deepEqual(stateHeader(bytes), { serial: 5n, lineage: 'l', managed: 1 });
  assert.throws(() => stateHeader(bytes.subarray(0, 50)), /not JSON/);
  assert.throws(() => readState(Buffer.from('{"version":3}')), /version is 3/);
  assert.deepEqual(readState(new Uint8Array()).instances, []);
});

test("finds the providers of a state's resources", () => {
  const resources = [
    { provider: 'provider["registry.terraform.io/hashicorp/null"]' },
    { provider: 'module.a["b.c"].provider["registry.terraform.io/kreuzwerker/docker"].other' },
    { provider: 'provider["registry.terraform.io/hashicorp/null"].other' },
    {},
  ];
  const found = stateProviders(Buffer.from(JSON.stringify({ version: 4, resources })));
  assert.deepEqual([...found], ['registry.terraform.io/hashicorp/null', 'registry.terraform.io/kreuzwerker/docker']);
  for (const unreadable of ['', '{', '{"version":3}']) assert.equal(stateProviders(Buffer.from(unreadable)).size, 0);
});

test('a plan: reads data of the prior state first, and replacements of other providers', () => {
  const resource = (mode: 'managed' | 'data', type: string, name: string) => ({
    address: `${mode === 'data' ? 'data.' : ''}${type}.${name}`,
    mode,
    type,
    name,
    values: {},
  });
  const { instances } = readPlan({
    prior_state: {
      values: {
        root_module: { resources: [resource('managed', 'x', 'old'), resource('data', 'coder_workspace', 'me')] },
      },
    },
    planned_values: {
      root_module: {
        resources: [resource('managed', 'x', 'new')],
        child_modules: [{ address: 'module.m', resources: [resource('managed', 'x', 'inner')] }],
      },
    },
  });
  assert.deepEqual(
    instances.map(({ name, module }) => [name, module]),
    [
      ['me', ''],
      ['inner', 'module.m'],
      ['new', ''],
    ],
  );
  const change = { actions: ['delete', 'create'], replace_paths: [['disk', 0, 'size']] };
  assert.deepEqual(
    replacements({
      resource_changes: [
        { address: 'x.vm', type: 'x', change },
        { address: 'coder_agent.a', type: 'coder_agent', change },
        { address: 'x.same', type: 'x', change: { ...change, actions: ['no-op'] } },
      ],
    }).map(({ resource: address, paths }) => [address, paths]),
    [['x.vm', ['disk.0.size']]],
  );
});

test("an app's tooltip is the template's Markdown", () => {
  const instances = [
    managed('coder_agent.dev', { id: '1' }),
    managed('x.vm'),
    managed('coder_app.docs', { id: '2', agent_id: '1', slug: 'docs', tooltip: 'The **handbook**' }),
  ];
  const { resources } = describe({ instances }, graph('x.vm > coder_agent.dev'), nothing);
  assert.deepEqual(
    resources[0]?.agents[0]?.apps.map(({ tooltip }) => tooltip),
    ['The **handbook**'],
  );
});

test('an agent on a machine that the template does not create stays with its coder_external_agent', () => {
  const instances = [
    managed('coder_agent.dev', { id: '1' }),
    managed('coder_external_agent.outside', { agent_id: '1' }),
  ];
  assert.deepEqual(agentsOf(instances, graph('coder_external_agent.outside > coder_agent.dev')), [
    ['outside', ['dev']],
  ]);
});

for (const [when, agentId, subagentId] of [
  ['a plan', undefined, undefined],
  ['a build', '1', '2'],
] as const) {
  test(`what belongs to the agent of a dev container stays with it in ${when}`, () => {
    const child = (label: string, agent_id: string | undefined, values: Record<string, unknown>) =>
      managed(label, { agent_id, ...values });
    const instances = [
      managed('coder_agent.dev', { id: agentId }),
      managed('x.vm'),
      child('coder_devcontainer.repo', agentId, { subagent_id: subagentId, workspace_folder: '/repo' }),
      child('coder_app.inside', subagentId, { slug: 'inside' }),
      child('coder_app.outside', agentId, { slug: 'outside' }),
      child('coder_script.inside', subagentId, { display_name: 'inside' }),
      child('coder_env.b', subagentId, { name: 'PATH', value: '/b', merge_strategy: 'append' }),
      child('coder_env.a', subagentId, { name: 'PATH', value: '/a' }),
    ];
    const children = ['coder_app.inside', 'coder_script.inside', 'coder_env.a', 'coder_env.b'];
    const edges = graph(
      'x.vm > coder_agent.dev',
      'coder_devcontainer.repo > coder_agent.dev',
      'coder_app.outside > coder_agent.dev',
      ...children.map((label) => `${label} > coder_devcontainer.repo`),
    );
    const [agent] = describe({ instances }, edges, nothing).resources.flatMap(({ agents }) => agents);
    const [container] = agent!.devcontainers;
    assert.deepEqual(
      [agent!.apps.map(({ slug }) => slug), agent!.scripts.length, agent!.extraEnvs.length],
      [['outside'], 0, 0],
    );
    assert.deepEqual(
      [
        container!.subagentId,
        container!.apps.map(({ slug }) => slug),
        container!.scripts.map(({ displayName }) => displayName),
        container!.envs.map(({ name, value }) => `${name}=${value}`),
      ],
      [subagentId ?? '', ['inside'], ['inside'], ['PATH=/a:/b']],
    );
  });
}

test('names what is left out because its agent_id is that of no agent', () => {
  const warnings: string[] = [];
  const lost = managed('coder_app.lost', { agent_id: 'elsewhere', slug: 'lost' });
  describe({ instances: [managed('coder_agent.dev', { id: '1' }), lost] }, graph('coder_agent.dev'), (text) =>
    warnings.push(text),
  );
  assert.ok(
    warnings.some((text) => /coder_app\.lost is left out/.test(text)),
    warnings.join('\n'),
  );
});

test('ignores names that every object has as sharing levels, form types and types of machines', () => {
  const child = { agent_id: '1', slug: 'app', share: 'constructor' };
  const instances = [
    managed('coder_agent.a', { id: '1', auth: 'aws-instance-identity' }),
    managed('toString.vm', { id: 'i-1' }),
    managed('coder_app.app', child),
    data('coder_parameter', 'p', { name: 'p', type: 'string', form_type: '__proto__' }),
  ];
  const found = describe({ instances }, graph('toString.vm > coder_agent.a', 'coder_app.app > coder_agent.a'), nothing);
  const [agent] = found.resources.flatMap(({ agents }) => agents);
  assert.equal(agent!.apps[0]!.sharingLevel, AppSharingLevel.OWNER);
  assert.deepEqual(agent!.auth, { case: 'instanceId', value: '' });
  assert.equal(found.parameters[0]!.formType, ParameterFormType.DEFAULT);
});

test('variables of one name join without an empty part', () => {
  const env = (name: string, value: string, merge_strategy: string) =>
    managed(`coder_env.${name}`, { agent_id: '1', name: 'PATH', value, merge_strategy });
  const joined = (...envs: Instance[]) => {
    const { resources } = describe(
      { instances: [managed('coder_agent.a', { id: '1' }), managed('x.vm'), ...envs] },
      graph('x.vm > coder_agent.a'),
      nothing,
    );
    return resources.flatMap(({ agents }) => agents).flatMap(({ extraEnvs }) => extraEnvs.map(({ value }) => value));
  };
  assert.deepEqual(joined(env('a', '', 'replace'), env('b', '/b', 'append')), ['/b']);
  assert.deepEqual(joined(env('a', '', 'replace'), env('b', '/b', 'prepend')), ['/b']);
  // in the order of their addresses, whatever the order in the state
  assert.deepEqual(joined(env('b', '/b', 'append'), env('a', '/a', 'append')), ['/a:/b']);
});

test('rejects numbers that the server cannot store, with the resource, attribute, value and range', () => {
  const range = 'Use a whole number from -2147483648 to 2147483647.';
  const cases: [Instance, string][] = [
    [managed('coder_agent.dev', { order: 3_000_000_000 }), `coder_agent.dev: order is 3000000000. ${range}`],
    [
      managed('coder_agent.dev', { metadata: [{ timeout: 1 }, { timeout: 5e9 }] }, 'module.m[0]'),
      `module.m[0].coder_agent.dev: metadata[1].timeout is 5000000000. ${range}`,
    ],
    [managed('coder_script.s', { timeout: -5e9 }), `coder_script.s: timeout is -5000000000. ${range}`],
    [
      data('coder_workspace_preset', 'p', { prebuilds: [{ instances: 1e300 }] }),
      `data.coder_workspace_preset.p: prebuilds[0].instances is 1e+300. ${range}`,
    ],
  ];
  for (const [instance, message] of cases) {
    assert.throws(() => describe({ instances: [instance] }, graph(instance.label), nothing), {
      code: 'invalid',
      message,
    });
  }
  // numbers of other providers are their own matter
  describe(
    { instances: [managed('x.y', { size: 5e12 }), managed('coder_agent.dev', { order: 2 ** 31 - 1 })] },
    graph('x.y'),
    nothing,
  );
});
