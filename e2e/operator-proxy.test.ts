// A CoderWorkspaceProxy with `bootstrap`, whose pods are real processes of the command: from its creation to its deletion.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { WorkspaceProxiesResponse } from '@ropewalk/contract';
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '@ropewalk/operator/crd/workspace-proxy';
import { DEPLOYMENTS } from '@ropewalk/operator/kube/types';
import { needsKubernetes } from '@ropewalk/operator/testing/cluster';
import { freePorts } from '@ropewalk/testkit/ports';
import { eventually } from './harness.ts';
import { type OperatorSystem, startOperatorSystem } from './operator-system.ts';

let system: OperatorSystem;
let url: string;

before(async () => {
  if (needsKubernetes.skip) return;
  const [port] = await freePorts(1);
  url = `http://127.0.0.1:${port}`;
  system = await startOperatorSystem({
    controllers: ['deployment-controller', 'replicaset-controller', 'garbage-collector-controller'],
    probed: url,
    serverEnv: { CODER_PROXY_HEALTH_INTERVAL: '1s' },
  });
});
after(() => system?.stop());

const regions = async () =>
  (await system.server.api<WorkspaceProxiesResponse>('GET', '/workspaceproxies')).body.regions;

/** Waits until `look` accepts the status. The error has the status and the logs of the pods. */
async function reaches(what: string, look: (status: WorkspaceProxy['status']) => unknown): Promise<void> {
  const { cluster, namespace, kubelet, operator } = system;
  let last: WorkspaceProxy | undefined;
  await eventually(what, async () => {
    last = await cluster.client.get<WorkspaceProxy>(WORKSPACE_PROXIES, namespace, 'berlin');
    return look(last.status);
  }).catch((err: Error) => {
    const pods = [...kubelet.running].map(([pod, { log }]) => `${pod}:\n${log}`);
    throw new Error([err.message, JSON.stringify(last?.status), operator.log(), ...pods].join('\n'));
  });
}

test('a proxy of Kubernetes registers, is healthy, and is deleted with its resource', needsKubernetes, async () => {
  const { cluster, namespace, server } = system;
  const { client } = cluster;
  await client.create(WORKSPACE_PROXIES, {
    metadata: { namespace, name: 'berlin' },
    spec: {
      image: 'registry.example.com/coder:v0.1.0',
      bootstrap: { coderURL: server.url, credentialsSecretRef: { name: 'coder-token' }, displayName: 'Berlin' },
      extraArgs: ['--http-address', new URL(url).host],
      extraEnv: [{ name: 'CODER_ACCESS_URL', value: url }],
    },
  } as WorkspaceProxy);
  await reaches('the proxy is ready', (status) => status?.phase === 'Ready' && status.registered);
  const berlin = await eventually('the server finds it healthy', async () =>
    (await regions()).find(({ name, healthy }) => name === 'berlin' && healthy),
  );
  assert.deepEqual([berlin.display_name, berlin.path_app_url], ['Berlin', url]);

  await client.delete(WORKSPACE_PROXIES, namespace, 'berlin');
  await eventually('the server has no proxy', async () => (await regions()).every(({ name }) => name !== 'berlin'));
  await eventually('its pods are gone', async () => system.kubelet.running.size === 0);
  const { items } = await client.list(DEPLOYMENTS, { namespace });
  assert.deepEqual(items, []);
});
