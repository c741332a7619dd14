// Brings a workspace proxy to what its spec says: proxy at the server → token → Service → Deployment → status. The processes
// register themselves: pods are ready when they have.
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '../crd/workspace-proxy.ts';
import { isRolledOut } from '../kube/objects.ts';
import { DEPLOYMENTS, SERVICES } from '../kube/types.ts';
import { applyChanges, sha256 } from '../machinery/apply.ts';
import { type NewCondition, rejectionOf } from '../machinery/conditions.ts';
import { condition, writeStatus } from '../machinery/status.ts';
import { ServerProblem } from '../provisioner/server.ts';
import { TOKEN_KEY, tokenOf } from '../provisioner/target.ts';
import type { World } from '../world.ts';
import type { ServerProxy } from './facts.ts';
import { deployment, nameOf, service } from './objects.ts';
import { finalize, register } from './registration.ts';

/** When to look again at what the operator does not watch, such as a missing Secret. */
const AGAIN_MS = 15_000;

/** When to look again whether the server still has the proxy that the operator created there. */
const CHECK_MS = 60_000;

const REGISTERED = 'The proxy has registered at its server with its token.';
const NOT_YET = 'No proxy has registered with its token yet. The logs of its pods have the reason.';

/** Returns the reconciler: it takes the key of a proxy, and returns the ms after which it is due again. */
export function createProxyReconciler(world: World): (key: string) => Promise<number | undefined> {
  return async (key) => {
    const [namespace, name] = key.split('/') as [string, string];
    const proxy = world.caches.proxies.get(namespace, name);
    if (!proxy) return undefined;
    if (proxy.metadata.deletionTimestamp) return finalize(world, proxy, AGAIN_MS);
    try {
      return await bringUp(world, proxy);
    } catch (err) {
      const problem = err instanceof ServerProblem ? err : rejectionOf(err);
      if (!problem) throw err;
      await world.report(WORKSPACE_PROXIES, proxy, 'Warning', problem.reason, problem.message);
      await report(world, proxy, { phase: 'Pending' }, [condition('Ready', false, problem.reason, problem.message)]);
      return AGAIN_MS;
    }
  };
}

const report = (
  world: World,
  object: WorkspaceProxy,
  changes: Omit<NonNullable<WorkspaceProxy['status']>, 'conditions'>,
  conditions: NewCondition[],
) => writeStatus(world, { resource: WORKSPACE_PROXIES, informer: world.caches.proxies, object }, changes, conditions);

async function bringUp(world: World, proxy: WorkspaceProxy): Promise<number | undefined> {
  const { client, caches } = world;
  const { spec, metadata } = proxy;
  const { namespace = '' } = metadata;
  const image = spec.image || world.defaultImage;
  if (!image) throw new ServerProblem('ControlPlaneReady', 'NoImage', 'Set image, or --default-image of the operator.');
  const { token, text, at } = await tokenFor(world, proxy);
  const tokenChecksum = sha256(text);
  const url = spec.primaryAccessURL ?? spec.bootstrap!.coderURL;
  const name = nameOf(proxy);
  caches.services.store(await applyChanges(client, SERVICES, service(proxy), caches.services.get(namespace, name)));
  const desired = deployment(proxy, { image, url, token, tokenChecksum });
  const live = await applyChanges(client, DEPLOYMENTS, desired, caches.deployments.get(namespace, name));
  caches.deployments.store(live);
  const ready = isRolledOut(live);
  const readyReplicas = live.status?.readyReplicas ?? 0;
  const state = `${readyReplicas} of ${spec.replicas ?? 1} proxies are ready.`;
  await report(
    world,
    proxy,
    {
      ...{ phase: ready ? 'Ready' : 'Pending', readyReplicas },
      ...{ registered: readyReplicas > 0, proxyTokenSecretRef: token, proxyID: at?.id, proxyServerURL: at?.url },
    },
    [
      readyReplicas > 0
        ? condition('Registered', true, 'ProxyRegistered', REGISTERED)
        : condition('Registered', false, 'NoProxyRegistered', NOT_YET),
      condition('Ready', ready, ready ? 'ProxiesReady' : 'ProxiesNotReady', state),
    ],
  );
  return at && CHECK_MS;
}

/** The token of the proxy: the one of the spec, or of the proxy that the operator creates at the server. */
async function tokenFor(
  world: World,
  proxy: WorkspaceProxy,
): Promise<{ token: { name: string; key: string }; text: string; at?: ServerProxy }> {
  const { proxySessionTokenSecretRef: given, bootstrap } = proxy.spec;
  if (given) {
    const { namespace = '' } = proxy.metadata;
    const token = { name: given.name, key: given.key || TOKEN_KEY };
    return { token, text: await tokenOf(world.lookup, { namespace, ...token }, 'the session token of the proxy') };
  }
  const { secret, at } = await register(world, proxy, bootstrap!);
  return {
    token: { name: secret.metadata.name, key: TOKEN_KEY },
    text: Buffer.from(secret.data![TOKEN_KEY]!, 'base64').toString(),
    at,
  };
}
