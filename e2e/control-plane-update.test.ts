// The operator updates a control plane of two servers, each in a pod with its own address, while people work.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CONTROL_PLANES, type ControlPlane } from '@ropewalk/operator/crd/control-plane';
import type { Deployment } from '@ropewalk/operator/kube/objects';
import { DEPLOYMENTS, type KubeObject, PODS } from '@ropewalk/operator/kube/types';
import { needsKubernetes } from '@ropewalk/operator/testing/cluster';
import { type Balancer, startBalancer } from './balancer.ts';
import { type ControlPlaneSystem, readPlane, startControlPlaneSystem } from './control-plane-system.ts';
import { CHECKOUT, type Connection, connectTo, eventually, firstUser, freePort } from './harness.ts';
import { invitePeople, type People, work } from './people.ts';

/** About how long an update takes, in s: two servers are ready for 15 s each before the next one is replaced. */
const SECONDS = 75;
const LOOK_MS = 200;

interface Pod extends KubeObject {
  status?: { podIP?: string; conditions?: { type: string; status: string }[] };
}

let system: ControlPlaneSystem;
let balancer: Balancer;
let site: Connection;
let people: People;
let port: number;
let configDir: string;
/** Ends the look at the pods. */
const ending = new AbortController();
/** The pods that are ready and are not about to end, as a Service sees them. */
let endpoints: Pod[] = [];
/** The fewest endpoints since the deployment was complete. */
let fewest = Number.POSITIVE_INFINITY;

/** Sends requests to the pods that are ready, as a Service does. */
async function followPods(): Promise<void> {
  const { cluster, namespace } = system;
  while (!ending.signal.aborted) {
    const { items } = await cluster.client.list<Pod>(PODS, {
      namespace,
      labelSelector: 'app.kubernetes.io/name=coder-control-plane',
    });
    endpoints = items.filter(
      ({ metadata, status }) =>
        !metadata.deletionTimestamp &&
        status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
    );
    balancer.use(...endpoints.map(({ status }) => ({ url: `http://${status!.podIP}:${port}` })));
    fewest = Math.min(fewest, endpoints.length);
    await delay(LOOK_MS);
  }
}

before(async () => {
  if (needsKubernetes.skip) return;
  port = await freePort();
  [system, balancer] = await Promise.all([startControlPlaneSystem({ podPort: port }), startBalancer()]);
  void followPods();
  await system.cluster.client.create(CONTROL_PLANES, {
    metadata: { namespace: system.namespace, name: 'coder' },
    spec: {
      image: 'registry.example.com/coder:v0.1.0',
      replicas: 2,
      postgres: { connectionSecretRef: { name: 'coder-db-url' } },
      service: { port: Number(new URL(balancer.url).port) },
      extraEnv: [
        // each pod is a process of this machine with an address, but without an own network
        { name: 'CODER_HTTP_ADDRESS', value: `$(KUBE_POD_IP):${port}` },
        { name: 'CODER_DERP_SERVER_RELAY_URL', value: `http://$(KUBE_POD_IP):${port}` },
        { name: 'CODER_PROMETHEUS_ADDRESS', value: '127.0.0.1:0' },
        { name: 'CODER_PPROF_ADDRESS', value: '127.0.0.1:0' },
        // workspaces have no name service of the cluster
        { name: 'CODER_ACCESS_URL', value: balancer.url },
        { name: 'CODER_PROVISIONER_DAEMONS', value: '2' },
      ],
    },
  } as ControlPlane);
  await system.ready(() => readPlane(system, 'coder'));
  await eventually('both servers are in use', () => endpoints.length === 2, 60_000);
  site = connectTo(balancer.url);
  await firstUser(site);
  configDir = mkdtempSync(join(tmpdir(), 'config-'));
  const env = () => ({
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    CODER_CONFIG_DIR: configDir,
    CODER_URL: balancer.url,
    CODER_SESSION_TOKEN: site.token,
  });
  people = await invitePeople({ site, url: balancer.url, env }, CHECKOUT);
});
after(async () => {
  people?.end();
  ending.abort();
  balancer?.close();
  await system?.stop();
  if (configDir) rmSync(configDir, { recursive: true, force: true });
});

const addresses = () => endpoints.map(({ status }) => `http://${status!.podIP}:${port}`).sort();

/** The addresses at which the servers reach each other. */
async function replicas(): Promise<string[]> {
  const { body } = await site.api<{ relay_address: string; error: string }[]>('GET', '/replicas');
  return body.filter(({ error }) => error === '').map(({ relay_address }) => relay_address);
}

test('an update replaces one server after the other, and nothing is lost or ended', needsKubernetes, async () => {
  const { cluster, namespace } = system;
  const { client } = cluster;
  await eventually('the servers reach each other', async () => {
    const found = await replicas().catch(() => []);
    return addresses().every((address) => found.some((each) => each.startsWith(address)));
  });
  const before = addresses();
  fewest = endpoints.length;
  const { violations, changes, summary } = await work(people, SECONDS, async (report) => {
    report('update');
    const podTemplate = { annotations: { 'example.com/update': '1' } };
    await client.merge(CONTROL_PLANES, { namespace, name: 'coder' }, { spec: { podTemplate } });
    let seen = addresses().join();
    await eventually(
      'all servers are replaced',
      async () => {
        const now = addresses().join();
        if (now !== seen) report(`servers ${now}`);
        seen = now;
        const { status } = await client.get<Deployment & { status: { updatedReplicas?: number; replicas?: number } }>(
          DEPLOYMENTS,
          namespace,
          'coder',
        );
        return (
          status.updatedReplicas === 2 && status.replicas === 2 && !addresses().some((each) => before.includes(each))
        );
      },
      SECONDS * 2_000,
    );
  });
  assert.deepEqual(violations, [], `${changes}; ${summary}`);
  assert.equal(fewest, 2, 'a new server is ready before an old one ends');
  await eventually('only the new servers are left', async () => {
    const found = await replicas().catch(() => []);
    return found.length === 2 && addresses().every((address) => found.some((each) => each.startsWith(address)));
  });
});
