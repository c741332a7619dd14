import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { parseDuration } from '@ropewalk/kit';
import { disruptionBudget } from '@ropewalk/operator/control-plane/objects';
import { deployment } from '@ropewalk/operator/control-plane/pods';
import type { ControlPlane } from '@ropewalk/operator/crd/control-plane';
import { DRAIN_CANCEL_MS } from '@ropewalk/server/builtin-daemons/drain';
import { options } from '@ropewalk/server/config/options';
import { parse, parseAllDocuments } from 'yaml';

// biome-ignore lint/suspicious/noExplicitAny: parsed YAML and JSON
type Any = any;

const charts = join(dirname(import.meta.dirname), 'charts');
const helm = process.env['HELM'] ?? '';
const needsHelm = { skip: existsSync(helm) ? false : 'HELM is not set: see scripts/build-helm.sh' };
const scratch = mkdtempSync(join(tmpdir(), 'charts-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

// Helm writes its caches below these
const env = { PATH: process.env['PATH'], HOME: scratch, XDG_CACHE_HOME: scratch, XDG_CONFIG_HOME: scratch };

async function run(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(helm, args, { env, timeout: 60_000 });
  return stdout;
}

/** A Helm that was built without release flags assumes a much older one. */
const CLUSTER = ['--kube-version', '1.34.0'];

const render = (chart: string, values: string) =>
  run('template', chart, join(charts, chart), '--namespace', 'dev', '--values', values, ...CLUSTER);

async function refused(chart: string, values: object): Promise<string> {
  const file = join(scratch, 'values.yaml');
  writeFileSync(file, JSON.stringify(values));
  return render(chart, file).then(
    () => assert.fail(`${chart} accepts ${JSON.stringify(values)}`),
    (err: { stderr: string }) => err.stderr,
  );
}

/** The objects of a rendered chart, by kind and name. Their shapes are Kubernetes', and assertions reject others. */
async function objects(chart: string, values: object): Promise<Map<string, Any>> {
  const file = join(scratch, 'values.yaml');
  writeFileSync(file, JSON.stringify(values));
  const docs = parseAllDocuments(await render(chart, file)) as { toJS(): Any }[];
  const all = docs.map((doc) => doc.toJS()).filter((object) => object);
  return new Map(all.map((object) => [`${object.kind} ${object.metadata.name}`, object]));
}

const CASES: [chart: string, name: string][] = [
  ['coder', 'coder-defaults'],
  ['coder', 'coder-production'],
  ['coder', 'coder-workspace-proxy'],
  ['coder-provisioner', 'coder-provisioner-psk'],
  ['coder-provisioner', 'coder-provisioner-key'],
  ['coder-operator', 'coder-operator-cluster'],
  ['coder-operator', 'coder-operator-namespace'],
  ['coder-operator', 'coder-operator-metrics'],
];

for (const [chart, name] of CASES) {
  test(`renders ${name} as checked in`, needsHelm, async () => {
    const golden = join(charts, 'testdata', `${name}.golden`);
    const actual = await render(chart, join(charts, 'testdata', `${name}.yaml`));
    if (process.env['UPDATE_GOLDEN']) writeFileSync(golden, actual);
    assert.equal(
      actual,
      readFileSync(golden, 'utf8'),
      'review the change. If it is intended, run with UPDATE_GOLDEN=1',
    );
    await run(
      'lint',
      '--strict',
      join(charts, chart),
      ...CLUSTER,
      '--values',
      join(charts, 'testdata', `${name}.yaml`),
    );
  });
}

test('every case has its golden output', () => {
  const names = globSync('*.yaml', { cwd: join(charts, 'testdata') }).map((file) => basename(file, '.yaml'));
  assert.deepEqual(names.sort(), CASES.map(([, name]) => name).sort());
});

const DATABASE = { name: 'CODER_PG_CONNECTION_URL', valueFrom: { secretKeyRef: { name: 'db', key: 'url' } } };

/** What a Deployment of servers says about running several of them. Selectors have the labels of their owner. */
function replication({ spec }: Any, budget: Any): object {
  const { containers, terminationGracePeriodSeconds, topologySpreadConstraints = [] } = spec.template.spec;
  const [{ env: variables, lifecycle, readinessProbe }] = containers;
  const variable = (name: string) => {
    const { value, valueFrom } = variables.find((one: Any) => one.name === name) ?? {};
    return value ?? valueFrom?.fieldRef?.fieldPath;
  };
  const selects = ({ matchLabels }: Any) => assert.deepEqual(matchLabels, spec.selector.matchLabels);
  for (const { labelSelector } of topologySpreadConstraints) selects(labelSelector);
  if (budget) selects(budget.spec.selector);
  return {
    strategy: spec.strategy,
    minReadySeconds: spec.minReadySeconds,
    podIp: variable('KUBE_POD_IP'),
    relayUrl: variable('CODER_DERP_SERVER_RELAY_URL'),
    readinessPath: readinessProbe.httpGet,
    lifecycle,
    terminationGracePeriodSeconds,
    spread: topologySpreadConstraints.map(({ labelSelector: _, ...rest }: Any) => rest),
    budget: budget && { ...budget.spec, selector: undefined },
  };
}

const ofChart = async (values: object) => {
  const all = await objects('coder', { coder: { env: [DATABASE], ...values } });
  return replication(all.get('Deployment coder'), all.get('PodDisruptionBudget coder'));
};

function ofOperator(spec: Partial<ControlPlane['spec']>): object {
  const plane: ControlPlane = { metadata: { name: 'coder', uid: 'x' }, spec: { extraEnv: [DATABASE], ...spec } };
  const runtime = { image: 'one', tokenChecksum: undefined };
  const wanted = (spec.replicas ?? 1) > 1 && spec.podDisruptionBudget?.enabled !== false;
  return replication(deployment(plane, runtime), wanted ? disruptionBudget(plane) : undefined);
}

const SEVERAL = {
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  minReadySeconds: 15,
  podIp: 'status.podIP',
  relayUrl: 'http://$(KUBE_POD_IP):8080',
  readinessPath: { path: '/readyz', port: 'http' },
  lifecycle: { preStop: { exec: { command: ['/bin/sh', '-c', 'sleep 5'] } } },
  terminationGracePeriodSeconds: 840,
  spread: ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'].map((topologyKey) => ({
    topologyKey,
    maxSkew: 1,
    whenUnsatisfiable: 'ScheduleAnyway',
    matchLabelKeys: ['pod-template-hash'],
  })),
  budget: { maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow', selector: undefined },
};

test('the chart and the operator run several servers in the same way', needsHelm, async () => {
  assert.deepEqual(await ofChart({ replicaCount: 3 }), SEVERAL);
  assert.deepEqual(ofOperator({ replicas: 3 }), SEVERAL);
  const one = { ...SEVERAL, minReadySeconds: undefined, spread: [], budget: undefined };
  assert.deepEqual(await ofChart({ replicaCount: 1 }), one);
  assert.deepEqual(ofOperator({ replicas: 1 }), one);
  // two servers never share a bundled database
  const bundled = { ...one, strategy: { type: 'Recreate' } };
  assert.deepEqual(await ofChart({ env: [] }), bundled);
  assert.deepEqual(ofOperator({ extraEnv: [] }), bundled);
});

test('a pod has the time that its server needs to end', () => {
  // after the last step of the drain: for the verdicts of killed builds, and for the last answers
  const REST_MS = 20_000;
  const PRE_STOP_MS = 5_000;
  const drainMs = parseDuration(options.provisionerDrainTimeout.default);
  const graceMs = SEVERAL.terminationGracePeriodSeconds * 1_000;
  assert.ok(graceMs >= PRE_STOP_MS + drainMs + DRAIN_CANCEL_MS + REST_MS);
});

test('given values replace what the chart and the operator set for several servers', needsHelm, async () => {
  const strategy = { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } };
  const constraint = { topologyKey: 'rack', maxSkew: 2, whenUnsatisfiable: 'DoNotSchedule' };
  const relay = { name: 'CODER_DERP_SERVER_RELAY_URL', value: 'http://server-1:8080' };
  const given = (selector: Record<string, string>) => ({
    strategy,
    topologySpreadConstraints: [{ ...constraint, labelSelector: { matchLabels: selector } }],
    podDisruptionBudget: { maxUnavailable: 2 },
    terminationGracePeriodSeconds: 900,
  });
  const expected = {
    ...SEVERAL,
    strategy,
    relayUrl: relay.value,
    terminationGracePeriodSeconds: 900,
    spread: [constraint],
    budget: { ...SEVERAL.budget, maxUnavailable: 2 },
  };
  const release = { 'app.kubernetes.io/name': 'coder', 'app.kubernetes.io/instance': 'coder' };
  const env = [DATABASE, relay];
  const lifecycle = { preStop: { sleep: { seconds: 10 } } };
  const chart = await ofChart({ replicaCount: 3, env, ...given(release), lifecycle });
  assert.deepEqual(chart, { ...expected, lifecycle });
  const { selector } = deployment(
    { metadata: { name: 'coder' }, spec: {} },
    { image: '', tokenChecksum: undefined },
  ).spec;
  const operator = ofOperator({ replicas: 3, extraEnv: env, ...given(selector.matchLabels!) });
  assert.deepEqual(operator, expected);
  const without = { podDisruptionBudget: { enabled: false } };
  assert.deepEqual(await ofChart({ replicaCount: 3, ...without }), { ...SEVERAL, budget: undefined });
});

test("the documented daemons' values render what their text says", needsHelm, async () => {
  const values = (name: string) =>
    parse(readFileSync(join(charts, 'testdata', `coder-provisioner-${name}.yaml`), 'utf8'));
  for (const name of ['psk', 'key']) {
    const { spec } = (await objects('coder-provisioner', values(name))).get('Deployment coder-provisioner');
    assert.equal(spec.replicas, 10);
    const pod = spec.template.spec;
    assert.equal(pod.terminationGracePeriodSeconds, 600);
    const [{ args, env: variables }] = pod.containers;
    assert.deepEqual(args, ['provisionerd', 'start']);
    const of = Object.fromEntries(variables.map((one: { name: string }) => [one.name, one]));
    assert.equal(of.CODER_URL.value, 'https://coder.example.com');
    const keyOf = (variable: string) => of[variable]?.valueFrom.secretKeyRef;
    if (name === 'psk') {
      assert.deepEqual(keyOf('CODER_PROVISIONER_DAEMON_PSK'), { name: 'coder-provisioner-psk', key: 'psk' });
      assert.equal(of.CODER_PROVISIONERD_TAGS.value, 'kind=k8s,location=auh');
    } else {
      assert.deepEqual(keyOf('CODER_PROVISIONER_DAEMON_KEY'), { name: 'coder-provisioner-keys', key: 'my-cool-key' });
      assert.equal(of.CODER_PROVISIONER_DAEMON_PSK, undefined);
    }
  }
});

test('grants permissions on workspaces only where the values say so', needsHelm, async () => {
  const account = (serviceAccount: object) => ({ coder: { serviceAccount } });
  const none = await objects('coder', account({ workspacePerms: false }));
  assert.deepEqual(
    [...none.keys()].filter((key) => key.startsWith('Role')),
    [],
  );
  const role = (await objects('coder', account({ enableDeployments: false }))).get('Role coder-workspace-perms');
  assert.deepEqual(
    role.rules.map(({ resources }: { resources: string[] }) => resources),
    [['pods', 'persistentvolumeclaims']],
  );
  const own = await objects('coder-provisioner', account({ disableCreate: true, name: 'mine' }));
  assert.equal(own.has('ServiceAccount mine'), false);
  assert.equal(own.get('RoleBinding mine-workspace-perms').subjects[0].name, 'mine');
});

test('an operator for one namespace has no rights elsewhere', needsHelm, async () => {
  const rights = (all: Map<string, Any>) => [...all.keys()].filter((key) => /Role/.test(key));
  assert.deepEqual(rights(await objects('coder-operator', {})), [
    'ClusterRole coder-operator',
    'ClusterRoleBinding coder-operator',
  ]);
  const one = await objects('coder-operator', { operator: { allNamespaces: false } });
  assert.deepEqual(rights(one), ['Role coder-operator', 'RoleBinding coder-operator']);
  const [{ env: variables }] = one.get('Deployment coder-operator').spec.template.spec.containers;
  assert.ok(variables.some(({ name, value }: Any) => name === 'CODER_OPERATOR_NAMESPACE' && value === 'dev'));
});

test('the operator may write its certificate only where the chart leaves it to it', needsHelm, async () => {
  const apiService = async (externalMetrics: object) =>
    (await objects('coder-operator', { operator: { externalMetrics } })).get(
      'APIService v1beta1.external.metrics.k8s.io',
    );
  assert.equal(await apiService({}), undefined);
  const own = await apiService({ enabled: true });
  assert.deepEqual([own.metadata.annotations, own.spec.caBundle], [{ 'coder.com/inject-ca': 'true' }, undefined]);
  const given = await apiService({ enabled: true, caBundle: 'pem' });
  assert.deepEqual([given.metadata.annotations, given.spec.caBundle], [undefined, btoa('pem')]);
});

test('rejects values that cannot work, and names the remedy', needsHelm, async () => {
  const cases: [chart: string, values: object, message: RegExp][] = [
    ['coder-provisioner', { provisionerDaemon: { pskSecretName: '' } }, /Name the secret of a provisioner key/],
    ['coder-provisioner', { provisionerDaemon: { keySecretName: 'a', pskSecretName: 'b' } }, /not both/],
    ['coder-provisioner', { provisionerDaemon: { keySecretName: 'a', tags: { b: 'c' } } }, /has its own tags/],
    ['coder', { coder: { replicaCount: 2 } }, /set CODER_PG_CONNECTION_URL/],
    ['coder', { coder: { ingress: { enable: true } } }, /needs coder\.ingress\.host/],
    ['coder', { coder: { tls: { secretName: 'a' } } }, /coder\.tls\.secretNames/],
    ['coder', { coder: { workspaceProxy: true } }, /needs CODER_PRIMARY_ACCESS_URL/],
    ['coder', { coder: { replicas: 2 } }, /replicas/],
    ['coder', { coder: { env: [{ name: 'A', value: 1 }] } }, /env/],
    ['coder-provisioner', { coder: { image: { pullPolicy: 'Sometimes' } } }, /pullPolicy/],
    ['coder-operator', { operator: { namespaces: ['a'] } }, /namespaces/],
    [
      'coder-operator',
      { coder: { replicaCount: 2 }, operator: { keda: { enabled: true } } },
      /need coder.replicaCount 1/,
    ],
    [
      'coder-operator',
      { coder: { replicaCount: 2 }, operator: { externalMetrics: { enabled: true } } },
      /need coder.replicaCount 1/,
    ],
  ];
  for (const [chart, values, message] of cases) assert.match(await refused(chart, values), message);
});

/** The paths of all values, without those inside of lists and of objects that people fill. */
function pathsOf(values: unknown, schema: Any, path = ''): string[] {
  const closed = schema?.additionalProperties === false && schema.properties;
  if (!closed || typeof values !== 'object' || values === null) return [path];
  return Object.entries(values).flatMap(([key, value]) => pathsOf(value, closed[key], `${path}.${key}`));
}

test('each value is in the schema of its chart, and each property of the schema has a value', () => {
  // accepted, so that the template can say what to use in its place
  const withoutValue = new Set(['.nameOverride', '.global', '.common', '.coder.tls.secretName']);
  for (const chart of ['coder', 'coder-provisioner', 'coder-operator']) {
    const values = parse(readFileSync(join(charts, chart, 'values.yaml'), 'utf8'));
    const schema = JSON.parse(readFileSync(join(charts, chart, 'values.schema.json'), 'utf8'));
    const named = (part: Any, path = ''): string[] =>
      part.additionalProperties === false && part.properties
        ? Object.entries(part.properties).flatMap(([key, value]) => named(value, `${path}.${key}`))
        : [path];
    const known = named(schema).filter((path) => !withoutValue.has(path));
    assert.deepEqual(pathsOf(values, schema).sort(), known.sort());
  }
});
