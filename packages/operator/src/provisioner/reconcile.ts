// Brings a provisioner to what its spec says: key → Secret → account and permissions → daemons → status. Each step compares
// with the local copies, so that a reconcile without a difference makes no request.
import { ApiError, UnreachableError } from '@ropewalk/client';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { ignoreNotFound } from '../kube/client.ts';
import { type Secret, schedulingProblem } from '../kube/objects.ts';
import { POD_DISRUPTION_BUDGETS, SECRETS } from '../kube/types.ts';
import { applyOrDelete, requireOwn } from '../machinery/apply.ts';
import { type NewCondition, rejectionOf } from '../machinery/conditions.ts';
import { hasFinalizer, setFinalizer } from '../machinery/finalizers.ts';
import { keyOf } from '../machinery/informer.ts';
import { condition, writeStatus } from '../machinery/status.ts';
import { applyPermissions } from '../workspace-access.ts';
import type { World } from '../world.ts';
import { deleteKey, deleteKeyOf, OTHER_SERVER } from './delete-key.ts';
import { finalize } from './finalize.ts';
import {
  annotationsOf,
  createKey,
  factsOf,
  freeName,
  keyIsCurrent,
  knownKeys,
  type RetiredKey,
  retiredKeys,
  sameKey,
} from './keys.ts';
import { accountName, deploymentName, FINALIZER, keySecretOf, organizationOf, owned } from './names.ts';
import { checksumOf, disruptionBudget, keySecret, podChecksum, workspaceNamespaces } from './objects.ts';
import { existsOn, pendingKeys } from './pending.ts';
import { podsOf, type Surplus, scale } from './scale.ts';
import { problemOf, type Server, ServerProblem, type Target } from './server.ts';
import { daemonsInStatus, type PodProblem, problemConditions, readyCondition, withProblem } from './status.ts';
import { type Resolved, resolveTarget } from './target.ts';

/** When to look again at what the operator does not watch, such as a missing Secret with credentials. */
const AGAIN_MS = 15_000;

/** Returns the reconciler: it takes the key of a provisioner, and returns the ms after which it is due again. */
export function createReconciler(world: World): (key: string) => Promise<number | undefined> {
  const surplus: Surplus = new Map();
  return async (key) => {
    const [namespace, name] = key.split('/') as [string, string];
    const provisioner = world.caches.provisioners.get(namespace, name);
    if (!provisioner || provisioner.metadata.deletionTimestamp) {
      if (provisioner) await finalize(world, provisioner);
      world.servers.leave(key);
      surplus.delete(key);
      return undefined;
    }
    try {
      return await bringUp(world, provisioner, key, surplus);
    } catch (err) {
      const conditions = conditionsOf(err, provisioner);
      if (!conditions) throw err;
      const { reason, message } = conditions.at(-1)!;
      await world.report(PROVISIONERS, provisioner, 'Warning', reason, message);
      const current = world.caches.provisioners.get(namespace, name) ?? provisioner;
      await writeStatus(world, statusOf(world, current), { phase: 'Pending' }, conditions);
      return AGAIN_MS;
    }
  };
}

/** The conditions for an error that a person has to solve. Undefined for one that a retry may solve. */
function conditionsOf(err: unknown, provisioner: Provisioner): NewCondition[] | undefined {
  const rejection = rejectionOf(err);
  if (rejection) return [condition('Ready', false, rejection.reason, rejection.message)];
  if (!(err instanceof ServerProblem || err instanceof ApiError || err instanceof UnreachableError)) return undefined;
  const { url = 'The server' } = provisioner.spec;
  return problemConditions(problemOf(err, { url, organization: organizationOf(provisioner) }));
}

async function withFinalizer({ client, caches }: World, provisioner: Provisioner): Promise<Provisioner> {
  if (hasFinalizer(provisioner, FINALIZER)) return provisioner;
  const held = await setFinalizer(client, PROVISIONERS, provisioner, FINALIZER, true);
  caches.provisioners.store(held);
  return held;
}

async function bringUp(world: World, given: Provisioner, key: string, surplus: Surplus): Promise<number | undefined> {
  const resolved = await resolveTarget(given, world);
  const { target } = resolved;
  const server = await lookAt(world, key, resolved);
  const { provisioner, secret } = await currentKey(world, given, target, server);
  const facts = factsOf(world.proofs, provisioner, secret)!;
  await applyAccess(world, provisioner);
  const retired = retiredKeys(provisioner.status, facts);
  const names = new Set([facts['coder.com/key-name'], ...retired.map(({ name }) => name)]);
  const daemons = server.state.daemons.filter(({ key_name }) => names.has(key_name ?? ''));
  const runtime = {
    url: target.url,
    image: resolved.image,
    keyChecksum: checksumOf(secret, keySecretOf(provisioner).key),
  };
  const scaled = await scale(world, { provisioner, runtime, daemons, pending: server.state.pending }, surplus);
  const left = await deleteRetired(world, provisioner, { retired, target, server, checksum: runtime.keyChecksum });

  const pods = podsOf(world, provisioner);
  const own = new Set(pods.map((pod) => pod.metadata.name));
  const registered = daemons.filter(({ name }) => own.has(name)).length;
  const problem = schedulingProblem(pods);
  const ready = readyCondition(registered, scaled.replicas, problem);
  await writeStatus(
    world,
    statusOf(world, provisioner),
    {
      phase: ready.status === 'True' ? 'Ready' : 'Pending',
      replicas: pods.length,
      readyReplicas: registered,
      selector: Object.entries(owned.selectorOf(provisioner))
        .map(([name, value]) => `${name}=${value}`)
        .join(','),
      organizationID: facts['coder.com/key-organization-id'],
      organizationName: target.organization,
      provisionerKeyID: facts['coder.com/key-id'],
      provisionerKeyName: facts['coder.com/key-name'],
      tagsHash: facts['coder.com/key-tags-hash'],
      controlPlaneRefName: provisioner.spec.controlPlaneRef?.name,
      controlPlaneURL: target.url,
      secretRef: keySecretOf(provisioner),
      retiredKeys: left.length > 0 ? left : undefined,
      daemons: daemonsInStatus(daemons),
      autoscaling: scaled.autoscaling,
    },
    [
      condition('ControlPlaneReady', true, 'Reachable'),
      condition('OperatorAccessReady', true, 'TokenAccepted'),
      condition('ProvisionerKeyReady', true, 'KeyExists'),
      condition('ProvisionerKeySecretReady', true, 'SecretExists'),
      deploymentCondition(world, provisioner, problem),
      ready,
    ],
  );
  world.servers.concern(key, { keys: names, queue: provisioner.spec.autoscaling !== undefined });
  return scaled.againMs;
}

const statusOf = ({ caches }: World, object: Provisioner) => ({
  resource: PROVISIONERS,
  informer: caches.provisioners,
  object,
});

function deploymentCondition({ caches }: World, provisioner: Provisioner, problem: PodProblem): NewCondition {
  if (provisioner.spec.autoscaling?.mode === 'Job')
    return condition('DeploymentReady', true, 'NotNeeded', 'Each build has a separate Job.');
  const live = caches.deployments.get(provisioner.metadata.namespace!, deploymentName(provisioner));
  const { replicas = 1 } = live?.spec ?? {};
  const { readyReplicas = 0, observedGeneration = 0 } = live?.status ?? {};
  const ok = observedGeneration >= (live?.metadata.generation ?? 0) && readyReplicas >= replicas;
  const message = `${readyReplicas} of ${replicas} pods are ready.`;
  if (ok) return condition('DeploymentReady', true, 'PodsReady', message);
  return condition('DeploymentReady', false, problem?.reason ?? 'PodsNotReady', withProblem(message, problem));
}

/** The state of the server. A rejected token is read again, because someone may have replaced it. */
async function lookAt({ servers, lookup }: World, key: string, resolved: Resolved) {
  try {
    return await servers.look(key, resolved.target);
  } catch (err) {
    if (err instanceof ServerProblem && err.concerns === 'OperatorAccessReady')
      lookup.forget(SECRETS, resolved.credentials.namespace, resolved.credentials.name);
    throw err;
  }
}

/** The Secret with the key. Creates another key if the stored one is not what the spec asks for. */
async function currentKey(
  world: World,
  given: Provisioner,
  target: Target,
  server: Server,
): Promise<{ provisioner: Provisioner; secret: Secret }> {
  const { client, caches, report } = world;
  const { namespace = '' } = given.metadata;
  const { name } = keySecretOf(given);
  const stored = caches.secrets.get(namespace, name);
  if (stored && keyIsCurrent(world.proofs, given, target, server, stored))
    return { provisioner: await withFinalizer(world, given), secret: stored };
  // before a key exists that could not be stored
  await requireOwn(client, SECRETS, owned.metaOf(given, name), stored);
  await deleteUnstored(world, given, target, server);
  const { provisioner, key, facts } = await createNotedKey(world, given, target, server);
  const secret = await client.apply(
    SECRETS,
    keySecret(provisioner, key, annotationsOf(world.proofs, provisioner, facts)),
  );
  caches.secrets.store(secret);
  const had = provisioner.status?.provisionerKeyName;
  if (had) {
    const message = `The provisioner key "${facts['coder.com/key-name']}" replaces "${had}".`;
    await report(PROVISIONERS, provisioner, 'Normal', 'KeyReplaced', message);
  }
  const old = provisioner.status?.secretRef?.name;
  if (old && old !== name && ownsSecret(world, provisioner, old))
    await client.delete(SECRETS, namespace, old).catch(ignoreNotFound);
  return { provisioner, secret };
}

/** Whether the Secret is the provisioner's still: someone may have replaced it. */
function ownsSecret({ caches }: World, provisioner: Provisioner, name: string): boolean {
  const secret = caches.secrets.get(provisioner.metadata.namespace!, name);
  return secret !== undefined && owned.ownerOf(secret) === keyOf(provisioner);
}

async function createNotedKey(world: World, given: Provisioner, target: Target, server: Server) {
  let provisioner = given;
  for (;;) {
    const name = await freeName(provisioner, target, server);
    provisioner = await pendingKeys.write(world, world.caches.provisioners, provisioner, {
      name,
      organizationName: target.organization,
      url: target.url,
    });
    const created = await createKey(provisioner, name, target, server);
    if (created) return { provisioner, ...created };
  }
}

/** Deletes a key that was created just before the operator ended, so that its text is lost. */
async function deleteUnstored(world: World, provisioner: Provisioner, target: Target, server: Server): Promise<void> {
  const pending = pendingKeys.read(world.proofs, provisioner);
  if (!pending) return;
  if (knownKeys(world, provisioner).some((key) => sameKey(key, pending))) return;
  if (pending.url !== target.url || pending.organizationName !== target.organization) {
    const message = `The provisioner key "${pending.name}" of the organization "${pending.organizationName}" may remain at ${pending.url}. Delete it on the server.`;
    await world.report(PROVISIONERS, provisioner, 'Warning', 'KeyNotDeleted', message);
    return;
  }
  if (!existsOn(pending, server.state.keys)) return;
  // the text of a key with daemons was stored somewhere
  if (server.state.daemons.some(({ key_name }) => key_name === pending.name)) return;
  await deleteKey(server.client, pending);
  server.removeKey(pending.name);
  const message = `Deleted the provisioner key "${pending.name}", which was created but not stored.`;
  await world.report(PROVISIONERS, provisioner, 'Normal', 'KeyDeleted', message);
}

/** What the daemons may do, and the budget for disruptions. */
async function applyAccess(world: World, provisioner: Provisioner): Promise<void> {
  const { client, caches } = world;
  const { namespace = '' } = provisioner.metadata;
  const { enableDeployments, extraRules = [] } = provisioner.spec.workspacePermissions;
  await applyPermissions(world, {
    ownership: owned,
    owner: provisioner,
    account: accountName(provisioner),
    suffix: 'workspaces',
    namespaces: workspaceNamespaces(provisioner),
    enableDeployments,
    extraRules,
  });
  const { podDisruptionBudget: given } = provisioner.spec;
  await applyOrDelete(client, POD_DISRUPTION_BUDGETS, caches.budgets, {
    namespace,
    name: deploymentName(provisioner),
    wanted: given && disruptionBudget(provisioner, given.maxUnavailable),
  });
}

/** Deletes the replaced keys that no daemon and no pod uses any more. Returns the others. */
async function deleteRetired(
  world: World,
  provisioner: Provisioner,
  { retired, target, server, checksum }: { retired: RetiredKey[]; target: Target; server: Server; checksum: string },
): Promise<RetiredKey[]> {
  if (retired.length === 0) return [];
  if (podsOf(world, provisioner).some((pod) => podChecksum(pod) !== checksum)) return retired;
  const left: RetiredKey[] = [];
  const { url } = target;
  for (const key of retired) {
    try {
      const isGone = await deleteKeyOf({ url, client: server.client }, key, world.movedKeys, () =>
        isUsed(key, target, server),
      );
      if (!isGone) {
        left.push(key);
        continue;
      }
      if (key.organizationName === target.organization) server.removeKey(key.name);
      const message = `Deleted the provisioner key "${key.name}".`;
      await world.report(PROVISIONERS, provisioner, 'Normal', 'KeyDeleted', message);
    } catch (err) {
      if (!(err instanceof ServerProblem && err.reason === OTHER_SERVER)) throw err;
      const message = `Could not delete the provisioner key "${key.name}": ${err.message} Delete it on the server.`;
      await world.report(PROVISIONERS, provisioner, 'Warning', 'KeyNotDeleted', message);
    }
  }
  return left;
}

/** Whether a daemon of this organization is connected with a key. In another organization its pods are gone anyway. */
function isUsed({ name, organizationName }: RetiredKey, { organization }: Target, { state }: Server): boolean {
  return organizationName === organization && state.daemons.some(({ key_name }) => key_name === name);
}
