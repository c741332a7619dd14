import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { ignoreNotFound } from '../kube/client.ts';
import { hasFinalizer, setFinalizer } from '../machinery/finalizers.ts';
import { keyOf as nameOf } from '../machinery/informer.ts';
import { removePermissions } from '../workspace-access.ts';
import type { World } from '../world.ts';
import { deleteKey, deleteKeyOf, OTHER_SERVER, otherServer } from './delete-key.ts';
import { knownKeys, type RetiredKey, sameKey } from './keys.ts';
import { FINALIZER, owned } from './names.ts';
import { existsOn, pendingKeys } from './pending.ts';
import { clientFor, problemOf, type Target } from './server.ts';
import { resolveServer } from './target.ts';
import { GIVE_UP_DAYS } from './uncollected.ts';

/**
 * Deletes what Kubernetes cannot: the keys on the server, and permissions in other namespaces. A server that does not
 * answer does not hold up the deletion: its keys are collected later.
 */
export async function finalize(world: World, provisioner: Provisioner): Promise<void> {
  if (!hasFinalizer(provisioner, FINALIZER)) return;
  await removePermissions(world, owned, provisioner);
  for (const key of knownKeys(world, provisioner)) await removeKey(world, provisioner, key);
  await removeUnstored(world, provisioner);
  await setFinalizer(world.client, PROVISIONERS, provisioner, FINALIZER, false).catch(ignoreNotFound);
}

/** The server, or the one of the last reconcile: in a namespace that is deleted, the Secret with the token may go first. */
async function targetFor(world: World, provisioner: Provisioner): Promise<Target> {
  try {
    return (await resolveServer(provisioner, world)).target;
  } catch (err) {
    const last = world.servers.targetOf(nameOf(provisioner));
    if (!last) throw err;
    return last;
  }
}

/** A key that was created just before the operator ended. It has no daemons, so it may stay if the server is away. */
async function removeUnstored(world: World, provisioner: Provisioner): Promise<void> {
  const pending = pendingKeys.read(world.proofs, provisioner);
  if (!pending || knownKeys(world, provisioner).some((key) => sameKey(key, pending))) return;
  try {
    const target = await targetFor(world, provisioner);
    if (target.url !== pending.url) throw otherServer(target, pending);
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
  try {
    const target = await targetFor(world, provisioner);
    await deleteKeyOf({ url: target.url, client: clientFor(target) }, key, world.movedKeys);
  } catch (err) {
    const { reason, message } = problemOf(err, { url: key.url, organization: key.organizationName });
    const owed = reason !== OTHER_SERVER && (await world.uncollected.add(key, provisioner));
    const next = owed ? `The operator tries again for ${GIVE_UP_DAYS} days.` : 'Delete it on the server.';
    const text = `Could not delete the provisioner key "${key.name}" at ${key.url} (${reason}): ${message} ${next}`;
    // a namespace that is deleted takes no events
    world.log.warn(text);
    await world.report(PROVISIONERS, provisioner, 'Warning', 'KeyNotDeleted', text);
  }
}
