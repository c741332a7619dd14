// The operator as in a pod: the arguments, variables and rights of its chart, and of the cluster only the files that Kubernetes
// mounts for the pod's service account.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { createKubeClient, isNotFound } from '@ropewalk/operator/kube/client';
import { inClusterConnection } from '@ropewalk/operator/kube/connection';
import { type KubeObject, LEASES, type Resource, SECRETS } from '@ropewalk/operator/kube/types';
import {
  type Cluster,
  installResources,
  needsKubernetes,
  startCluster,
  storeSecret,
} from '@ropewalk/operator/testing/cluster';
import { freePorts } from '@ropewalk/testkit/ports';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { parseAllDocuments } from 'yaml';
import { eventually } from './harness.ts';
import { type OperatorProcess, startOperatorPod } from './operator-process.ts';

const CHART = join(import.meta.dirname, '../charts/testdata');
/** The namespace of the release in the outputs of the chart. */
const RELEASED_IN = 'dev';

interface Container {
  args: string[];
  env: { name: string; value: string }[];
}

let cluster: Cluster;
let server: TestServer;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster(), startTestServer()]);
  await installResources(cluster);
});
after(async () => {
  await server?.stop();
  await cluster?.stop();
});

const resourceOf = ({ apiVersion, kind }: KubeObject): Resource => {
  const [version, group = ''] = apiVersion!.split('/').reverse() as [string, string?];
  return { group, version, kind: kind!, plural: `${kind!.toLowerCase()}s` };
};

/** Installs what the chart renders, in a new namespace, and starts the operator as its Deployment says. */
async function install(golden: string) {
  const namespace = await cluster.namespace();
  const text = readFileSync(join(CHART, golden), 'utf8')
    .replaceAll(`namespace: ${RELEASED_IN}`, `namespace: ${namespace}`)
    .replaceAll(`"${RELEASED_IN}"`, namespace);
  const objects = parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
  for (const object of objects) await cluster.client.apply(resourceOf(object), object);
  const { spec } = objects.find(({ kind }) => kind === 'Deployment') as KubeObject & {
    spec: { template: { spec: { containers: [Container] } } };
  };
  const [{ args, env }] = spec.template.spec.containers;
  await storeSecret(cluster, namespace, 'bound', {});
  const token = await cluster.accountToken({ namespace, name: 'coder-operator', boundTo: 'bound' });
  const account = cluster.podAccount({ namespace, token });
  const [port] = await freePorts(1);
  const operator = startOperatorPod(account.folder, args, {
    ...account.env,
    ...Object.fromEntries(env.map(({ name, value }) => [name, value])),
    CODER_OPERATOR_POLL_INTERVAL: '200ms',
    CODER_OPERATOR_KEDA_ADDRESS: `127.0.0.1:${port}`,
  });
  return { namespace, operator, account, token };
}

async function settles(namespace: string, name: string, operator: OperatorProcess): Promise<void> {
  await cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name },
    spec: { url: server.url, image: 'i', replicas: 0, bootstrap: { credentialsSecretRef: { name: 'token' } } },
  } as unknown as Provisioner);
  let last: unknown;
  await eventually(`${name} settles`, async () => {
    const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);
    last = status;
    return status?.phase === 'Ready';
  }).catch((err: Error) => {
    throw new Error(`${err.message}\n${JSON.stringify(last, null, 1)}\n${operator.log()}`);
  });
}

/** The log has no request that the API server rejected for a missing right. */
const hasEveryRight = (operator: OperatorProcess) => assert.doesNotMatch(operator.log(), /forbidden/i);

test("reconciles with its service account and the chart's rights", needsKubernetes, async (t) => {
  const { namespace, operator } = await install('coder-operator-cluster.golden');
  t.after(() => operator.stop());
  const elsewhere = await cluster.namespace();
  for (const each of [namespace, elsewhere]) {
    await storeSecret(cluster, each, 'token', { token: server.adminToken });
    await settles(each, 'berlin', operator);
  }
  const lease = await cluster.client.get<KubeObject>(LEASES, namespace, 'coder-operator');
  assert.ok(lease, "its lease is in the pod's namespace");
  for (const each of [namespace, elsewhere]) {
    await cluster.client.delete(PROVISIONERS, each, 'berlin');
    await eventually('the provisioner is gone', () =>
      cluster.client.get(PROVISIONERS, each, 'berlin').then(
        () => false,
        (err) => {
          if (isNotFound(err)) return true;
          throw err;
        },
      ),
    );
  }
  hasEveryRight(operator);
  assert.equal(await operator.stop(), 0, operator.log());
});

test(
  'in one namespace it needs no right in others, and uses a token that is swapped in',
  needsKubernetes,
  async (t) => {
    const { namespace, operator, account, token } = await install('coder-operator-namespace.golden');
    t.after(() => operator.stop());
    await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
    await settles(namespace, 'berlin', operator);
    hasEveryRight(operator);

    const rightOf = async (text: string) => {
      const { folder, env } = cluster.podAccount({ namespace, token: text });
      const client = createKubeClient(inClusterConnection(env, folder));
      const can = (where: string) =>
        client.list(SECRETS, { namespace: where }).then(
          () => true,
          () => false,
        );
      return { here: await can(namespace), elsewhere: await can('default') };
    };
    assert.deepEqual(await rightOf(token), { here: true, elsewhere: false });
    const renewed = await cluster.accountToken({ namespace, name: 'coder-operator' });
    account.replaceToken(renewed);
    await cluster.client.delete(SECRETS, namespace, 'bound');
    await eventually('the first token has expired', async () => !(await rightOf(token)).here);
    assert.deepEqual(await rightOf(renewed), { here: true, elsewhere: false });
    await settles(namespace, 'paris', operator);
    assert.equal(await operator.stop(), 0, operator.log());
  },
);
