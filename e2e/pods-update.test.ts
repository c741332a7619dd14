// A control plane of two servers in pods, which the operator and Kubernetes replace one after the other while people build,
// type, forward ports, follow logs and watch pages. Nothing may be lost, doubled or ended, and every request is answered.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { V1PodStatus } from '@kubernetes/client-node';
import { CONTROL_PLANES, type ControlPlane } from '@ropewalk/operator/crd/control-plane';
import { type KubeObject, PODS } from '@ropewalk/operator/kube/types';
import { needsKubernetes } from '@ropewalk/operator/testing/cluster';
import { type Balancer, startBalancer } from './balancer.ts';
import { type ControlPlaneSystem, readPlane, startControlPlaneSystem } from './control-plane-system.ts';
import { type DaemonProcess, makeKey, startDaemon } from './daemon-process.ts';
import {
  answers,
  type Connection,
  connectTo,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  PROGRAM,
} from './harness.ts';
import { invitePeople, type People, work } from './people.ts';

const REPLICAS = 2;
/** For the long build, the short ones and the imports of templates, which would wait for each other. */
const DAEMONS = 3;
/** About as long as the update takes: each new server is ready for 15 s before the next one is replaced. */
const SECONDS = 60;
const UPDATE_MS = 400_000;
/** How often the Service's endpoints follow the pods. */
const ENDPOINTS_MS = 200;
const ANNOTATION = 'example.com/update';

interface Pod extends KubeObject {
  status?: V1PodStatus;
}

let dir: string;
let system: ControlPlaneSystem;
let balancer: Balancer;
let daemons: DaemonProcess[] = [];
let site: Connection;
let people: People;
/** The lowest number of ready pods since the last look at it. */
let fewest = 0;
const ending = new AbortController();
let endpoints: Promise<void> | undefined;

const isReady = ({ metadata, status }: Pod) =>
  !metadata.deletionTimestamp &&
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;

/** The pods of servers. */
async function pods(): Promise<Pod[]> {
  const { items } = await system.cluster.client.list<Pod>(PODS, { namespace: system.namespace });
  return items.filter(({ metadata }) => metadata.labels?.['app.kubernetes.io/name'] !== 'coder-migration');
}

/** Plays the Service: new connections go to pods that are ready and not about to end. */
async function followPods(port: number): Promise<void> {
  while (!ending.signal.aborted) {
    const ready = (await pods()).filter(isReady);
    fewest = Math.min(fewest, ready.length);
    balancer.use(...ready.map(({ status }) => ({ url: `http://${status!.podIP}:${port}` })));
    await delay(ENDPOINTS_MS);
  }
}

before(async () => {
  if (needsKubernetes.skip) return;
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-pods-'));
  const port = await freePort();
  [balancer, system] = await Promise.all([startBalancer(port), startControlPlaneSystem({ podPort: port })]);
  endpoints = followPods(port);
  const { client } = system.cluster;
  await client.create(CONTROL_PLANES, {
    metadata: { namespace: system.namespace, name: 'coder' },
    spec: {
      image: 'registry.example.com/coder:v0.1.0',
      replicas: REPLICAS,
      postgres: { connectionSecretRef: { name: 'coder-db-url' } },
      service: { port },
      extraEnv: [
        // pods have the same port at their own address
        { name: 'CODER_HTTP_ADDRESS', value: `$(KUBE_POD_IP):${port}` },
        { name: 'CODER_DERP_SERVER_RELAY_URL', value: `http://$(KUBE_POD_IP):${port}` },
        { name: 'CODER_ACCESS_URL', value: balancer.url },
        { name: 'CODER_PROMETHEUS_ADDRESS', value: '127.0.0.1:0' },
        { name: 'CODER_PPROF_ADDRESS', value: '127.0.0.1:0' },
        { name: 'CODER_PROVISIONER_DAEMONS', value: '0' },
      ],
    },
  } as ControlPlane);
  await system.ready(() => readPlane(system, 'coder'));
  site = connectTo(balancer.url);
  // the Service's endpoints follow the pods after a while
  await eventually('the Service has a server', () => answers(`${balancer.url}/healthz`));
  await firstUser(site);
  const env = { HOME: dir, CODER_PROVISIONER_DAEMON_KEY: await makeKey(site, 'outside') };
  daemons = await Promise.all(
    Array.from({ length: DAEMONS }, (_, n) =>
      startDaemon({ url: balancer.url, configDir: dir }, { name: `outside-${n}`, env }),
    ),
  );
  const envOfPeople = () => ({
    PATH: process.env['PATH'],
    HOME: dir,
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    CODER_CONFIG_DIR: dir,
    CODER_URL: balancer.url,
    CODER_SESSION_TOKEN: site.token,
  });
  people = await invitePeople({ site, url: balancer.url, env: envOfPeople }, PROGRAM);
});
after(async () => {
  people?.end();
  await Promise.all(daemons.map((daemon) => daemon.kill()));
  ending.abort();
  await endpoints;
  await system?.stop();
  balancer?.close();
  if (dir) rmSync(dir, { recursive: true, force: true, maxRetries: 20 });
});

/** Changes the pods' annotation, as any change of the template replaces them, and waits until only new ones are left. */
async function update(): Promise<void> {
  const at = { namespace: system.namespace, name: 'coder' };
  const podTemplate = { annotations: { [ANNOTATION]: 'second' } };
  await system.cluster.client.merge(CONTROL_PLANES, at, { spec: { podTemplate } });
  await eventually(
    'all servers are replaced',
    async () => {
      const found = await pods();
      return found.length === REPLICAS && found.every((pod) => isReady(pod) && pod.metadata.annotations?.[ANNOTATION]);
    },
    UPDATE_MS,
  );
}

test('an update replaces the servers while everybody works', needsKubernetes, async () => {
  fewest = REPLICAS;
  const { violations } = await work(people, SECONDS, update, console.log);
  assert.deepEqual(violations, [], system.operator.log());
  assert.equal(fewest, REPLICAS, 'a server was stopped before another one was ready');
  assert.equal(system.kubelet.killed, 0, 'a server ended within its grace period');
});
