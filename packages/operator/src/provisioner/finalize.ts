import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { ignoreNotFound } from '../kube/client.ts';
import { hasFinalizer, setFinalizer } from '../machinery/finalizers.ts';
import { keyOf as nameOf } from '../machinery/informer.ts';
import { removePermissions } from '../workspace-access.ts';
import type { World } from '../world.ts';
import { deleteKey } from './delete-key.ts';
import { factsOf, keyOf, type RetiredKey, retiredKeys, sameKey } from './keys.ts';
import { FINALIZER, keySecretOf, owned } from './names.ts';
import { existsOn, pendingKey } from './pending.ts';
import { clientFor, problemOf, type Target } from './server.ts';
import { credentialsOf, resolveTarget } from './target.ts';

/**
 * Deletes what Kubernetes cannot: the keys on the server, and permissions in other namespaces. A server that does not
 * answer does not hold up the deletion: its keys are collected later.
 */
export async function finalize(world: World, provisioner: Provisioner): Promise<void> {
  if (!hasFinalizer(provisioner, FINALIZER)) return;
  await removePermissions(world, owned, provisioner);
  for (const key of allKeys(world, provisioner)) await removeKey(world, provisioner, key);
  await removeUnstored(world, provisioner);
  await setFinalizer(world.client, PROVISIONERS, provisioner, FINALIZER, false).catch(ignoreNotFound);
}

/** Its current key and those that it replaced. */
function allKeys({ caches }: World, provisioner: Provisioner): RetiredKey[] {
  const { metadata, status } = provisioner;
  const facts = factsOf(caches.secrets.get(metadata.namespace!, keySecretOf(provisioner).name));
  return [...(facts ? [keyOf(facts)] : []), ...retiredKeys(status, facts)];
}

/** The server, or the one of the last reconcile: in a namespace that is deleted, the Secret with the token may go first. */
async function targetFor(world: World, provisioner: Provisioner): Promise<Target> {
  try {
    return (await resolveTarget(provisioner, world)).target;
  } catch (err) {
    const last = world.servers.targetOf(nameOf(provisioner));
    if (!last) throw err;
    return last;
  }
}

/** A key that was created just before the operator ended. It has no daemons, so it may stay if the server is away. */
async function removeUnstored(world: World, provisioner: Provisioner): Promise<void> {
  const pending = pendingKey(provisioner);
  if (!pending || allKeys(world, provisioner).some((key) => sameKey(key, pending))) return;
  try {
    const target = await targetFor(world, provisioner);
    if (target.url !== pending.url) return;
    const client = clientFor(target);
    const keys = await client.call('GET /organizations/{organization}/provisionerkeys', {
      params: { organization: pending.organizationName },
    });
    if (existsOn(pending, keys)) await deleteKey(client, pending);
  } catch (err) {
    const { reason, message } = problemOf(err, { url: pending.url, organization: pending.organizationName });
    const text = `The provisioner key "${pending.name}" may remain at ${pending.url} (${reason}): ${message}`;
    await world.report(PROVISIONERS, provisioner, 'Warning', 'KeyNotDeleted', text);
  }
}

async function removeKey(world: World, provisioner: Provisioner, key: RetiredKey): Promise<void> {
  const { report, uncollected } = world;
  try {
    const target = await targetFor(world, provisioner);
    // a token is for its own server only
    if (target.url !== key.url) throw new Error(`the operator has a token for ${target.url}, not for ${key.url}`);
    await deleteKey(clientFor(target), key);
  } catch (err) {
    const { reason, message } = problemOf(err, { url: key.url, organization: key.organizationName });
    // where a token may be later, if the control plane that names it still exists
    const credentials = await credentialsOf(provisioner, world).catch(() => undefined);
    const next = credentials ? 'The operator tries again later.' : 'Delete it on the server.';
    await report(
      PROVISIONERS,
      provisioner,
      'Warning',
      'KeyNotDeleted',
      `Could not delete the provisioner key "${key.name}" at ${key.url} (${reason}): ${message} ${next}`,
    );
    if (credentials) await uncollected.add({ ...key, credentials });
  }
}
