import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import '../testing/cluster-dns.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { silentLogger } from '@ropewalk/kit';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from '@ropewalk/testkit/wait';
import { parse } from 'yaml';
import { CONTROL_PLANES, type ControlPlane, type ControlPlaneSpec } from '../crd/control-plane.ts';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { isNotFound } from '../kube/client.ts';
import type { Deployment, Ingress, Job, Role, Service, VolumeClaim } from '../kube/objects.ts';
import {
  DEPLOYMENTS,
  EVENTS,
  HTTP_ROUTES,
  INGRESSES,
  JOBS,
  type KubeObject,
  POD_DISRUPTION_BUDGETS,
  REFERENCE_GRANTS,
  type Resource,
  ROLE_BINDINGS,
  ROLES,
  SECRETS,
  SERVICE_ACCOUNTS,
  SERVICES,
  VOLUME_CLAIMS,
} from '../kube/types.ts';
import { type Operator, startOperator } from '../operator.ts';
import {
  type Cluster,
  installGatewayApi,
  installOperator,
  needsKubernetes,
  permitRoles,
  startCluster,
  storeSecret,
} from '../testing/cluster.ts';
import type { HttpRoute } from './objects.ts';

const TOKEN = 'a-token-that-a-person-has-chosen-for-it';
const samples = join(import.meta.dirname, '../../samples');

let cluster: Cluster;
let server: TestServer;
let operator: Operator;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster(), startTestServer({ env: { CODER_OPERATOR_TOKEN: TOKEN } })]);
  await installOperator(cluster);
  operate();
});

function operate(): void {
  operator = startOperator({
    connection: cluster.connection,
    pollMs: 50,
    collectMs: 200,
    log: silentLogger,
    defaultImage: 'registry.example.com/coder:default',
  });
}

after(async () => {
  await operator?.stop();
  await server?.stop();
  await cluster?.stop();
});

const EXTERNAL = { image: 'one', postgres: { connectionSecretRef: { name: 'db' } } };

async function create(spec: Partial<ControlPlaneSpec> = {}, name = 'coder'): Promise<string> {
  const namespace = await cluster.namespace();
  await cluster.client.create(CONTROL_PLANES, { metadata: { namespace, name }, spec } as ControlPlane);
  return namespace;
}

const change = (namespace: string, spec: object) =>
  cluster.client.merge(CONTROL_PLANES, { namespace, name: 'coder' }, { spec });

/** Waits until the conditions of a control plane have these reasons, and returns it. */
function reaches(namespace: string, reasons: Record<string, string>, name = 'coder'): Promise<ControlPlane> {
  let last: ControlPlane | undefined;
  return eventually('the conditions', async () => {
    last = await cluster.client.get<ControlPlane>(CONTROL_PLANES, namespace, name);
    const { conditions = [], observedGeneration } = last.status ?? {};
    const ok = Object.entries(reasons).every(
      ([type, reason]) => conditions.find((each) => each.type === type)?.reason === reason,
    );
    return ok && observedGeneration === last.metadata.generation && last;
  }).catch((err: Error) => {
    throw new Error(`${err.message}: ${JSON.stringify(last?.status, null, 1)}`);
  });
}

const find = <T extends KubeObject>(resource: Resource, namespace: string, name = 'coder') =>
  cluster.client.get<T>(resource, namespace, name).catch((err) => {
    if (!isNotFound(err)) throw err;
    return undefined;
  });

const jobs = async (namespace: string) =>
  (await cluster.client.list<Job>(JOBS, { namespace })).items.filter(({ metadata }) => !metadata.deletionTimestamp);

/** Ends the only Job as its controller would. */
async function endJob(namespace: string, type: 'Complete' | 'Failed', at = new Date()): Promise<string> {
  const { metadata } = await eventually('a Job', async () =>
    (await jobs(namespace)).find(({ status }) => !status?.conditions),
  );
  const time = at.toISOString();
  const before = { type: type === 'Complete' ? 'SuccessCriteriaMet' : 'FailureTarget', status: 'True' };
  await cluster.client.merge(
    JOBS,
    metadata as { namespace: string; name: string },
    {
      status: {
        startTime: new Date(at.getTime() - 1_000).toISOString(),
        ...(type === 'Complete' ? { completionTime: time } : {}),
        conditions: [before, { type, status: 'True' }].map((each) => ({ ...each, lastTransitionTime: time })),
      },
    },
    'status',
  );
  return metadata.name;
}

/** Reports the servers as ready, as the controller of Deployments would. */
async function startServers(namespace: string): Promise<Deployment> {
  const live = await eventually('the Deployment', () => find<Deployment>(DEPLOYMENTS, namespace));
  const { replicas = 1 } = live.spec;
  const status = { replicas, readyReplicas: replicas, updatedReplicas: replicas, availableReplicas: replicas };
  await cluster.client.merge(
    DEPLOYMENTS,
    { namespace, name: 'coder' },
    { status: { ...status, observedGeneration: live.metadata.generation } },
    'status',
  );
  return live;
}

const environment = ({ spec }: Deployment | Job) =>
  Object.fromEntries(
    spec.template.spec!.containers[0]!.env!.map(({ name, value, valueFrom }) => [
      name,
      value ?? valueFrom?.secretKeyRef,
    ]),
  );

test('starts servers after the migration, and updates them after the next one', needsKubernetes, async () => {
  const namespace = await create({ ...EXTERNAL, replicas: 2, extraArgs: ['--verbose'] });
  const waiting = await reaches(namespace, { Migrated: 'Running', Ready: 'NotMigrated' });
  assert.equal(waiting.status!.url, `http://coder.${namespace}.svc.cluster.local`);
  assert.equal(await find(DEPLOYMENTS, namespace), undefined, 'no server before the migration');
  const [job] = await jobs(namespace);
  assert.deepEqual(job!.spec.template.spec!.containers[0]!.args, ['server', 'migrate']);
  assert.deepEqual(environment(job!)['CODER_PG_CONNECTION_URL'], { name: 'db', key: 'url' });
  await endJob(namespace, 'Complete');

  const first = await startServers(namespace);
  assert.deepEqual(first.spec.strategy, { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } });
  assert.deepEqual(first.spec.template.spec!.containers[0]!.args, ['server', '--verbose']);
  const env = environment(first);
  assert.equal(env['CODER_ACCESS_URL'], `http://coder.${namespace}.svc.cluster.local`);
  assert.deepEqual(env['CODER_OPERATOR_TOKEN'], { name: 'coder-operator-token', key: 'token' });
  const { status } = await reaches(namespace, {
    Migrated: 'Migrated',
    DeploymentReady: 'ServersReady',
    Ready: 'Ready',
  });
  assert.deepEqual([status!.phase, status!.readyReplicas, status!.image], ['Ready', 2, 'one']);
  const { spec } = (await find<Service>(SERVICES, namespace))!;
  assert.deepEqual(spec.selector, first.spec.selector.matchLabels);
  assert.notEqual(
    job!.spec.template.metadata!.labels!['app.kubernetes.io/name'],
    spec.selector!['app.kubernetes.io/name'],
  );

  // another image: the servers continue until its migration is done
  await change(namespace, { image: 'two' });
  await reaches(namespace, { Migrated: 'Running', Ready: 'NotMigrated' });
  assert.equal((await find<Deployment>(DEPLOYMENTS, namespace))!.spec.template.spec!.containers[0]!.image, 'one');
  await endJob(namespace, 'Failed');
  const failed = await reaches(namespace, { Migrated: 'Failed' });
  assert.match(failed.status!.conditions!.find(({ type }) => type === 'Migrated')!.message, /Read the log/);
  assert.equal((await find<Deployment>(DEPLOYMENTS, namespace))!.spec.template.spec!.containers[0]!.image, 'one');
  // back to the old one: it needs no migration
  await change(namespace, { image: 'one' });
  await reaches(namespace, { Migrated: 'Migrated', Ready: 'Ready' });
  await change(namespace, { image: 'three' });
  await endJob(namespace, 'Complete');
  await eventually(
    'the servers are updated',
    async () => (await find<Deployment>(DEPLOYMENTS, namespace))!.spec.template.spec!.containers[0]!.image === 'three',
  );
});

interface Budget extends KubeObject {
  spec: { maxUnavailable: number; selector: { matchLabels: Record<string, string> } };
}

test('limits the disruptions of several servers, unless someone else does', needsKubernetes, async () => {
  const namespace = await create({ ...EXTERNAL, replicas: 2 });
  const budget = () => find<Budget>(POD_DISRUPTION_BUDGETS, namespace);
  const is = (what: string, expected: number | undefined) =>
    eventually(what, async () => (await budget())?.spec.maxUnavailable === expected);
  await is('a budget', 1);
  await endJob(namespace, 'Complete');
  const { spec } = await startServers(namespace);
  assert.deepEqual((await budget())!.spec.selector.matchLabels, spec.selector.matchLabels);
  assert.equal(spec.template.spec!.topologySpreadConstraints?.length, 2);
  assert.equal(spec.minReadySeconds, 15);
  await change(namespace, { podDisruptionBudget: { maxUnavailable: 2 } });
  await is('another budget', 2);
  await change(namespace, { podDisruptionBudget: { enabled: false } });
  await is('no budget', undefined);
  await change(namespace, { podDisruptionBudget: null });
  await is('a budget again', 1);
  // with one server, a budget would keep its node from being drained
  await change(namespace, { replicas: 1 });
  await is('no budget for one server', undefined);
  const live = await eventually('a Deployment for one server', async () => {
    const found = await find<Deployment>(DEPLOYMENTS, namespace);
    return found?.spec.replicas === 1 && found;
  });
  assert.equal(live.spec.template.spec!.topologySpreadConstraints, undefined);
  assert.equal(live.spec.minReadySeconds, undefined);

  const own = { maxUnavailable: 5, selector: { matchLabels: { mine: 'yes' } } };
  await cluster.client.create(POD_DISRUPTION_BUDGETS, { metadata: { namespace, name: 'coder' }, spec: own } as Budget);
  await change(namespace, { replicas: 3 });
  await eventually(
    'a Deployment for three servers',
    async () => (await find<Deployment>(DEPLOYMENTS, namespace))?.spec.replicas === 3,
  );
  assert.deepEqual((await budget())!.spec, own);
});

test('a failed migration is tried again', needsKubernetes, async () => {
  const namespace = await create(EXTERNAL);
  await endJob(namespace, 'Failed', new Date(Date.now() - 61_000));
  // the old Job goes in the background, and the next one has its name
  await eventually('another Job', async () => (await jobs(namespace)).some(({ status }) => !status?.conditions));
});

test('a setting that is not about the database needs no migration', needsKubernetes, async () => {
  const namespace = await create(EXTERNAL);
  await endJob(namespace, 'Complete');
  await startServers(namespace);
  await reaches(namespace, { Ready: 'Ready' });
  await change(namespace, { extraEnv: [{ name: 'CODER_VERBOSE', value: 'true' }] });
  await eventually(
    'the servers have it',
    async () => environment((await find<Deployment>(DEPLOYMENTS, namespace))!)['CODER_VERBOSE'] === 'true',
  );
  assert.equal((await jobs(namespace)).filter(({ status }) => !status?.conditions).length, 0);
});

test('runs the bundled database on a volume, one server at a time', needsKubernetes, async () => {
  const namespace = await create({ image: 'one', postgres: { bundled: { storage: '1Gi' } } });
  const { spec } = await startServers(namespace);
  assert.deepEqual(spec.strategy, { type: 'Recreate' });
  const claim = (await find<VolumeClaim>(VOLUME_CLAIMS, namespace, 'coder-data'))!;
  assert.equal(claim.metadata.ownerReferences, undefined, 'the data outlives the control plane');
  assert.deepEqual(spec.template.spec!.volumes, [{ name: 'data', persistentVolumeClaim: { claimName: 'coder-data' } }]);
  await reaches(namespace, { Migrated: 'NotNeeded', Ready: 'Ready' });
  assert.deepEqual(await jobs(namespace), []);
});

test('the image of the operator is the default, and several servers need a database', needsKubernetes, async () => {
  const namespace = await create({ replicas: 2 });
  await reaches(namespace, { Ready: 'NoDatabase' });
  await change(namespace, { replicas: 1 });
  const { spec } = await eventually('the Deployment', () => find<Deployment>(DEPLOYMENTS, namespace));
  assert.equal(spec.template.spec!.containers[0]!.image, 'registry.example.com/coder:default');
});

test('exposes the servers by an Ingress, then by a route of the Gateway API', needsKubernetes, async () => {
  const ingress = {
    host: 'coder.example.com',
    wildcardHost: '*-apps.example.com',
    className: 'nginx',
    tls: { secretName: 'tls' },
  };
  const namespace = await create({ image: 'one', expose: { ingress } });
  await reaches(namespace, { Exposed: 'IngressApplied' });
  const { spec } = (await find<Ingress>(INGRESSES, namespace))!;
  assert.deepEqual(
    spec.rules!.map(({ host }) => host),
    ['coder.example.com', '*.example.com'],
  );
  assert.deepEqual(spec.tls, [{ hosts: ['coder.example.com'], secretName: 'tls' }]);
  const env = environment((await find<Deployment>(DEPLOYMENTS, namespace))!);
  assert.equal(env['CODER_ACCESS_URL'], 'https://coder.example.com');
  assert.equal(env['CODER_WILDCARD_ACCESS_URL'], '*-apps.example.com');

  const gateway = { host: 'coder.example.com', parentRefs: [{ name: 'public', namespace: 'gateways' }] };
  await change(namespace, { expose: { ingress: null, gateway } });
  await reaches(namespace, { Exposed: 'GatewayAPIMissing' });
  assert.equal(await find(INGRESSES, namespace), undefined, 'the Ingress is gone');
  await installGatewayApi(cluster);
  await change(namespace, { replicas: 1 });
  await reaches(namespace, { Exposed: 'HTTPRouteApplied' });
  const route = (await find<HttpRoute>(HTTP_ROUTES, namespace))!;
  const defaults = { group: 'gateway.networking.k8s.io', kind: 'Gateway' };
  const parentRefs = [{ ...defaults, ...gateway.parentRefs[0] }];
  assert.deepEqual([route.spec.hostnames, route.spec.parentRefs], [['coder.example.com'], parentRefs]);
  const answer = (status: 'True' | 'False', message: string) =>
    cluster.client.merge(
      HTTP_ROUTES,
      { namespace, name: 'coder' },
      { status: { parents: [parent(status, message)] } },
      'status',
    );
  await answer('True', 'attached');
  await change(namespace, { extraEnv: [{ name: 'LOOK', value: '1' }] });
  await reaches(namespace, { Exposed: 'HTTPRouteAccepted' });
  await answer('False', 'no listener has the host name');
  await change(namespace, { extraEnv: [{ name: 'LOOK', value: '2' }] });
  const { status: rejected } = await reaches(namespace, { Exposed: 'HTTPRouteRejected' });
  const { message } = rejected!.conditions!.find(({ type }) => type === 'Exposed')!;
  assert.equal(message, 'no listener has the host name');
  const looked = (await find<HttpRoute>(HTTP_ROUTES, namespace))!;
  assert.equal(looked.metadata.generation, route.metadata.generation, 'a route with defaults is not written again');

  const wildcard = {
    ...gateway,
    wildcardHost: '*.apps.example.com',
    parentRefs: [{ name: 'public', sectionName: 'https' }],
  };
  await change(namespace, { expose: { gateway: wildcard } });
  await eventually('the route has both hosts', async () => {
    const { hostnames, parentRefs } = (await find<HttpRoute>(HTTP_ROUTES, namespace))!.spec;
    return isDeepStrictEqual(hostnames, ['coder.example.com', '*.apps.example.com']) && parentRefs.length === 1;
  });
  await change(namespace, { expose: null });
  await reaches(namespace, { Exposed: 'NotExposed' });
  assert.equal(await find(HTTP_ROUTES, namespace), undefined);
});

/** What the controller of a Gateway writes to the status of a route. */
const parent = (status: 'True' | 'False', message: string) => ({
  parentRef: { name: 'public', namespace: 'gateways' },
  controllerName: 'example.com/gateway',
  conditions: [
    {
      type: 'Accepted',
      status,
      reason: status === 'True' ? 'Accepted' : 'NoMatchingListenerHostname',
      message,
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
  ],
});

/** The operator can grant only what it may do itself. */
const HELD = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }];

test('permissions in other namespaces go with the control plane', needsKubernetes, async () => {
  await installGatewayApi(cluster);
  const other = await cluster.namespace();
  const namespace = await create({ image: 'one', rbac: { workspaceNamespaces: [other], enableDeployments: false } });
  await reaches(namespace, { Ready: 'RefNotPermitted' });
  await eventually('the binding at home', () => find(ROLE_BINDINGS, namespace, 'coder-workspace-perms'));
  assert.deepEqual((await cluster.client.list(ROLES, { namespace: other })).items, []);
  await permitRoles(cluster, { kind: 'CoderControlPlane', from: namespace, to: other });
  await change(namespace, { replicas: 1 });
  const name = `${namespace}:coder-workspace-perms`;
  const { rules } = await eventually('the Role', () => find<Role>(ROLES, other, name));
  assert.deepEqual(
    rules.map(({ resources }) => resources),
    [['pods', 'persistentvolumeclaims']],
  );
  await eventually('the binding at home', () => find(ROLE_BINDINGS, namespace, 'coder-workspace-perms'));
  await change(namespace, { rbac: { workspacePerms: false } });
  await eventually('no binding at home', async () => !(await find(ROLE_BINDINGS, namespace, 'coder-workspace-perms')));
  await change(namespace, { rbac: { workspacePerms: true } });
  await eventually('the Role', () => find<Role>(ROLES, other, name));
  await cluster.client.delete(CONTROL_PLANES, namespace, 'coder');
  await eventually('it is gone', async () => !(await find(CONTROL_PLANES, namespace)));
  assert.equal(await find(ROLES, other, name), undefined);
  assert.equal(await find(ROLE_BINDINGS, other, name), undefined);
});

test('a release of the chart with the same name stays as it is', needsKubernetes, async () => {
  const namespace = await cluster.namespace();
  const labels = { 'app.kubernetes.io/managed-by': 'Helm' };
  const service = { type: 'LoadBalancer', selector: { app: 'coder' }, ports: [{ name: 'http', port: 80 }] };
  for (const [resource, spec] of [
    [SERVICE_ACCOUNTS, undefined],
    [SERVICES, service],
  ] as const)
    await cluster.client.create(resource, { metadata: { namespace, name: 'coder', labels }, spec } as KubeObject);
  await cluster.client.create(CONTROL_PLANES, {
    metadata: { namespace, name: 'coder' },
    spec: EXTERNAL,
  } as ControlPlane);
  const { status } = await reaches(namespace, { Ready: 'NameTaken' });
  const message = status!.conditions!.find(({ type }) => type === 'Ready')!.message;
  assert.match(message, /"coder" in the namespace .* manages it\. Delete it, or choose another name/);
  const { spec, metadata } = (await find<Service>(SERVICES, namespace))!;
  assert.equal(spec.type, 'LoadBalancer');
  assert.deepEqual(metadata.labels, labels);
});

test('a Secret without a token that is someone else’s stays as it is', needsKubernetes, async () => {
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'database', { password: 'theirs' });
  const before = await find(SECRETS, namespace, 'database');
  await cluster.client.create(CONTROL_PLANES, {
    metadata: { namespace, name: 'coder' },
    spec: { ...EXTERNAL, operatorAccess: { generatedTokenSecretName: 'database' } },
  } as ControlPlane);
  await reaches(namespace, { Ready: 'NameTaken' });
  assert.deepEqual(await find(SECRETS, namespace, 'database'), before);
});

test('every field of the largest sample reaches its object', needsKubernetes, async () => {
  const sample = parse(readFileSync(join(samples, 'codercontrolplane-all-fields.yaml'), 'utf8')) as ControlPlane;
  const { expose: _, rbac, ...spec } = sample.spec;
  const namespace = await create({ ...spec, rbac: { ...rbac, workspaceNamespaces: [], extraRules: HELD } });
  await endJob(namespace, 'Complete');
  const { spec: made } = await startServers(namespace);
  const pod = made.template.spec!;
  const [container] = pod.containers;
  assert.equal(pod.serviceAccountName, 'coder-server');
  const account = (await find(SERVICE_ACCOUNTS, namespace, 'coder-server'))!.metadata;
  assert.equal(account.annotations!['example.com/role'], 'server');
  assert.equal(account.labels!['team'], 'platform');
  assert.deepEqual(
    container!.ports!.map(({ name, containerPort }) => [name, containerPort]),
    [
      ['http', 8080],
      ['https', 8443],
    ],
  );
  assert.deepEqual(
    container!.volumeMounts!.map(({ mountPath }) => mountPath),
    ['/etc/ssl/certs/coder/coder-tls', '/etc/ssl/certs/company-ca.crt', '/scratch'],
  );
  const env = environment({ spec: made } as Deployment);
  assert.equal(env['CODER_TLS_CERT_FILE'], '/etc/ssl/certs/coder/coder-tls/tls.crt');
  assert.deepEqual(env['CODER_OPERATOR_TOKEN'], { name: 'the-operators-token', key: 'token' });
  assert.deepEqual(container!.envFrom, sample.spec.envFrom);
  assert.equal(container!.readinessProbe!.httpGet!.path, '/readyz');
  assert.equal(container!.readinessProbe!.periodSeconds, 5);
  assert.equal(container!.livenessProbe!.httpGet!.path, '/healthz');
  assert.deepEqual(pod.affinity, sample.spec.affinity);
  assert.deepEqual(pod.nodeSelector, sample.spec.nodeSelector);
  assert.equal(pod.tolerations!.length, 1);
  assert.equal(pod.topologySpreadConstraints!.length, 1);
  assert.equal(pod.terminationGracePeriodSeconds, 900);
  assert.equal(pod.initContainers![0]!.name, 'wait');
  assert.equal(made.template.metadata!.annotations!['example.com/scrape'], 'true');
  const { spec: service, metadata } = (await find<Service>(SERVICES, namespace))!;
  assert.equal(service.type, 'LoadBalancer');
  assert.deepEqual(
    service.ports!.map(({ port }) => port),
    [8080, 443],
  );
  assert.equal(metadata.annotations!['example.com/zone'], 'a');
  const { status } = await reaches(namespace, { LicenseApplied: 'NotSupported', Ready: 'Ready' });
  assert.equal(status!.url, `https://coder.${namespace}.svc.cluster.local`);
});

/** A control plane whose Service is the test's server, with its token in a Secret that a person has created. */
async function runningPlane(token = TOKEN): Promise<string> {
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'coder-operator-token', { token });
  await runPlane(namespace);
  return namespace;
}

async function runPlane(namespace: string): Promise<void> {
  const port = Number(new URL(server.url).port);
  await cluster.client.create(CONTROL_PLANES, {
    metadata: { namespace, name: 'coder' },
    spec: { image: 'one', service: { port } },
  } as ControlPlane);
  await startServers(namespace);
}

const provisionerIn = (namespace: string, controlPlaneRef: { name: string; namespace?: string }) =>
  cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name: 'daemons' },
    spec: { controlPlaneRef, replicas: 0, workspacePermissions: { enabled: false } },
  } as Provisioner);

const provisionerReaches = (namespace: string, reasons: Record<string, string>) =>
  eventually('the conditions of the provisioner', async () => {
    const found = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'daemons');
    const { conditions = [] } = found.status ?? {};
    return (
      Object.entries(reasons).every(
        ([type, reason]) => conditions.find((each) => each.type === type)?.reason === reason,
      ) && found
    );
  });

test("a provisioner joins the control plane with the operator's token", needsKubernetes, async () => {
  const namespace = await runningPlane();
  const { status } = await reaches(namespace, { OperatorAccessReady: 'TokenAccepted' });
  assert.equal(status!.operatorAccessReady, true);
  await provisionerIn(namespace, { name: 'coder' });
  const made = await provisionerReaches(namespace, { ProvisionerKeyReady: 'KeyExists', Ready: 'ScaledToZero' });
  assert.equal(made.status!.controlPlaneURL, status!.url);
  const { spec } = (await find<Deployment>(DEPLOYMENTS, namespace, 'daemons-provisioner'))!;
  assert.equal(spec.template.spec!.containers[0]!.image, 'one');
});

test(
  'a control plane that is deleted first leaves its provisioner as it is, until that is deleted',
  needsKubernetes,
  async () => {
    const namespace = await runningPlane();
    await reaches(namespace, { OperatorAccessReady: 'TokenAccepted' });
    await provisionerIn(namespace, { name: 'coder' });
    const { status } = await provisionerReaches(namespace, { ProvisionerKeyReady: 'KeyExists' });
    await cluster.client.delete(CONTROL_PLANES, namespace, 'coder');
    await eventually('the control plane is gone', async () => !(await find(CONTROL_PLANES, namespace)));
    await provisionerReaches(namespace, { ControlPlaneReady: 'NotFound', Ready: 'NotFound' });
    assert.ok(await find<Deployment>(DEPLOYMENTS, namespace, 'daemons-provisioner'), 'its daemons stay');
    await cluster.client.delete(PROVISIONERS, namespace, 'daemons');
    await eventually('the provisioner is gone', async () => !(await find(PROVISIONERS, namespace, 'daemons')));
    const { body } = await server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
    assert.ok(!body.some(({ name }) => name === status!.provisionerKeyName), 'its key is gone too');
  },
);

test(
  'a key whose control plane was deleted is collected when that is back, although the operator restarted',
  needsKubernetes,
  async () => {
    const namespace = await runningPlane();
    await reaches(namespace, { OperatorAccessReady: 'TokenAccepted' });
    await provisionerIn(namespace, { name: 'coder' });
    const { status } = await provisionerReaches(namespace, { ProvisionerKeyReady: 'KeyExists' });
    const key = status!.provisionerKeyName!;
    const keyExists = async () => {
      const { body } = await server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
      return body.some(({ name }) => name === key);
    };
    await cluster.client.delete(CONTROL_PLANES, namespace, 'coder');
    await eventually('the control plane is gone', async () => !(await find(CONTROL_PLANES, namespace)));
    await operator.stop();
    operate();
    await cluster.client.delete(PROVISIONERS, namespace, 'daemons');
    await eventually('the provisioner is gone', async () => !(await find(PROVISIONERS, namespace, 'daemons')));
    assert.ok(await keyExists(), 'the operator cannot find the server');
    const { items } = await cluster.client.list<KubeObject & { reason: string; message: string }>(EVENTS, {
      namespace,
    });
    const warning = items.find(({ reason }) => reason === 'KeyNotDeleted')!.message;
    assert.ok(warning.includes(`"${key}"`) && warning.includes(status!.controlPlaneURL!), warning);
    await operator.stop();
    operate();
    await runPlane(namespace);
    await eventually('the key is collected', async () => !(await keyExists()));
  },
);

test('a token that the servers reject is a condition', needsKubernetes, async () => {
  const namespace = await runningPlane('another-token-which-the-server-does-not-know');
  const { status } = await reaches(namespace, { OperatorAccessReady: 'Unauthorized' });
  assert.equal(status!.operatorAccessReady, false);
});

test('a provisioner of another namespace needs a ReferenceGrant', needsKubernetes, async () => {
  await installGatewayApi(cluster);
  const [theirs, ours] = await Promise.all([runningPlane(), cluster.namespace()]);
  await reaches(theirs, { OperatorAccessReady: 'TokenAccepted' });
  await provisionerIn(ours, { name: 'coder', namespace: theirs });
  await provisionerReaches(ours, { ControlPlaneReady: 'RefNotPermitted' });
  const grant = (name: string, to: object) =>
    cluster.client.apply(REFERENCE_GRANTS, {
      metadata: { namespace: theirs, name },
      spec: { from: [{ group: 'coder.com', kind: 'CoderProvisioner', namespace: ours }], to: [to] },
    } as KubeObject);
  await grant('another', { group: 'coder.com', kind: 'CoderControlPlane', name: 'another' });
  await grant('right', { group: 'coder.com', kind: 'CoderControlPlane' });
  // a change of the provisioner makes the operator look immediately
  await eventually(
    'it may join',
    async () => {
      await cluster.client.merge(
        PROVISIONERS,
        { namespace: ours, name: 'daemons' },
        { metadata: { annotations: { look: crypto.randomUUID() } } },
      );
      const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, ours, 'daemons');
      return status?.conditions?.some(({ type, reason }) => type === 'ProvisionerKeyReady' && reason === 'KeyExists');
    },
    30_000,
  );
});
