// Brings a control plane to what its spec says: token → account and permissions → volume → migration → servers → Service
// and Ingress → status. A new image waits for its migration, while the servers of the old one continue.
import { randomBytes } from 'node:crypto';
import { CONTROL_PLANES, type ControlPlane } from '../crd/control-plane.ts';
import { ignoreNotFound, isNotFound } from '../kube/client.ts';
import { isRolledOut, type Secret } from '../kube/objects.ts';
import {
  DEPLOYMENTS,
  POD_DISRUPTION_BUDGETS,
  SECRETS,
  SERVICE_ACCOUNTS,
  SERVICES,
  VOLUME_CLAIMS,
} from '../kube/types.ts';
import { applyChanges, applyOrDelete, NameTaken, requireOwn, sha256 } from '../machinery/apply.ts';
import { type NewCondition, rejectionOf } from '../machinery/conditions.ts';
import { hasFinalizer, setFinalizer } from '../machinery/finalizers.ts';
import { condition, writeStatus } from '../machinery/status.ts';
import { applyPermissions, removePermissions } from '../workspace-access.ts';
import type { World } from '../world.ts';
import { accessCondition } from './access.ts';
import { applyExposure } from './expose.ts';
import { migrate } from './migrate.ts';
import { accountName, clusterUrl, dataClaimName, owned, tokenSecretOf } from './names.ts';
import { dataClaim, disruptionBudget, service, serviceAccount, tokenSecret } from './objects.ts';
import { deployment, hasDatabase, isShared, type Runtime } from './pods.ts';

/** For permissions in other namespaces, which Kubernetes does not delete with their owner. */
const FINALIZER = 'coder.com/workspace-rbac-cleanup';
/** When to look again at a server that does not accept the operator yet. */
const AGAIN_MS = 15_000;

/** A state that only a change of the object, or of an object that it names, can mend. */
class SpecProblem extends Error {
  readonly reason: string;
  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Returns the reconciler: it takes the key of a control plane, and returns the ms after which it is due again. */
export function createControlPlaneReconciler(world: World): (key: string) => Promise<number | undefined> {
  return async (key) => {
    const [namespace, name] = key.split('/') as [string, string];
    const plane = world.caches.controlPlanes.get(namespace, name);
    if (!plane) return undefined;
    if (plane.metadata.deletionTimestamp) {
      await finalize(world, plane);
      return undefined;
    }
    try {
      return await bringUp(world, await withFinalizer(world, plane));
    } catch (err) {
      const problem = err instanceof SpecProblem ? err : rejectionOf(err);
      if (!problem) throw err;
      await world.report(CONTROL_PLANES, plane, 'Warning', problem.reason, problem.message);
      const current = world.caches.controlPlanes.get(namespace, name) ?? plane;
      await writeStatus(world, statusOf(world, current), { phase: 'Pending' }, [
        condition('Ready', false, problem.reason, problem.message),
      ]);
      return AGAIN_MS;
    }
  };
}

const statusOf = ({ caches }: World, object: ControlPlane) => ({
  resource: CONTROL_PLANES,
  informer: caches.controlPlanes,
  object,
});

async function withFinalizer({ client, caches }: World, plane: ControlPlane): Promise<ControlPlane> {
  const elsewhere = (plane.spec.rbac?.workspaceNamespaces ?? []).some((place) => place !== plane.metadata.namespace);
  if (!elsewhere || hasFinalizer(plane, FINALIZER)) return plane;
  const held = await setFinalizer(client, CONTROL_PLANES, plane, FINALIZER, true);
  caches.controlPlanes.store(held);
  return held;
}

async function finalize(world: World, plane: ControlPlane): Promise<void> {
  if (!hasFinalizer(plane, FINALIZER)) return;
  await removePermissions(world, owned, plane);
  await setFinalizer(world.client, CONTROL_PLANES, plane, FINALIZER, false).catch(ignoreNotFound);
}

async function bringUp(world: World, plane: ControlPlane): Promise<number | undefined> {
  const { spec, metadata } = plane;
  const { client, caches } = world;
  const { namespace = '', name } = metadata;
  const image = spec.image || world.defaultImage;
  if (!image) throw new SpecProblem('NoImage', 'Set image, or --default-image of the operator.');
  const replicas = spec.replicas ?? 1;
  if (replicas > 1 && !hasDatabase(plane)) {
    const message = 'More than one server needs one database for all: set postgres.connectionSecretRef.';
    throw new SpecProblem('NoDatabase', message);
  }
  const token = await currentToken(world, plane);
  const runtime: Runtime = { image, tokenChecksum: token && sha256(token) };
  await applyAccess(world, plane);
  await applyVolume(world, plane);
  const live = caches.services.get(namespace, name);
  caches.services.store(await applyChanges(client, SERVICES, service(plane), live));

  await applyBudget(world, plane);
  const migration = await migrate(world, plane, runtime);
  const before = caches.deployments.get(namespace, name);
  if (migration.done)
    caches.deployments.store(await applyChanges(client, DEPLOYMENTS, deployment(plane, runtime), before));
  const servers = caches.deployments.get(namespace, name);
  const readyReplicas = servers?.status?.readyReplicas ?? 0;
  const rolledOut = migration.done && isRolledOut(servers);
  const url = clusterUrl(plane);
  const access = await accessCondition(plane, { url, token, running: readyReplicas > 0 });
  const exposed = await applyExposure(world, plane);
  const ready = migration.done ? rolledOut : false;
  const state = `${readyReplicas} of ${replicas} servers are ready.`;
  await writeStatus(
    world,
    statusOf(world, plane),
    {
      phase: ready ? 'Ready' : 'Pending',
      url,
      replicas,
      readyReplicas,
      image: servers?.spec.template.spec?.containers[0]?.image,
      migration: migration.done ? migration.checksum : plane.status?.migration,
      operatorTokenSecretRef: tokenSecretOf(plane),
      operatorAccessReady: access.status === 'True',
    },
    [
      migration.condition,
      condition('DeploymentReady', rolledOut, rolledOut ? 'ServersReady' : 'ServersNotReady', state),
      access,
      ...exposed.conditions,
      ...licenseCondition(plane),
      condition('Ready', ready, ready ? 'Ready' : migration.done ? 'ServersNotReady' : 'NotMigrated', state),
    ],
  );
  const waits = [
    migration.againMs,
    exposed.againMs,
    readyReplicas > 0 && access.status === 'False' && token !== undefined ? AGAIN_MS : undefined,
  ].filter((ms) => ms !== undefined);
  return waits.length > 0 ? Math.min(...waits) : undefined;
}

function licenseCondition({ spec }: ControlPlane): NewCondition[] {
  if (!spec.licenseSecretRef) return [];
  return [
    condition('LicenseApplied', false, 'NotSupported', 'The server needs no license: every feature is available.'),
  ];
}

/**
 * The operator's token, which it creates once. A Secret of a person with the same name is used as it is.
 * @throws NameTaken if that Secret has no token
 */
async function currentToken({ client, caches, lookup }: World, plane: ControlPlane): Promise<string | undefined> {
  const wanted = tokenSecretOf(plane);
  if (!wanted) return undefined;
  const { namespace = '' } = plane.metadata;
  const textOf = (secret: Secret | undefined) =>
    Buffer.from(secret?.data?.[wanted.key] ?? '', 'base64')
      .toString('utf8')
      .trim();
  const known = textOf(caches.secrets.get(namespace, wanted.name));
  if (known) return known;
  const given = await lookup.get<Secret>(SECRETS, namespace, wanted.name).catch((err) => {
    if (!isNotFound(err)) throw err;
    return undefined;
  });
  // one that the operator had created is in its local copies, unless it was deleted since
  if (given && !owned.ownerOf(given) && textOf(given)) return textOf(given);
  await requireOwn(client, SECRETS, owned.metaOf(plane, wanted.name), given);
  const token = randomBytes(32).toString('base64url');
  caches.secrets.store(await client.apply(SECRETS, tokenSecret(plane, wanted, token)));
  return token;
}

/** The account of the servers, and what their built-in daemons may do. */
async function applyAccess(world: World, plane: ControlPlane): Promise<void> {
  const { client, caches } = world;
  const { spec, metadata } = plane;
  const account = accountName(plane);
  if (!spec.serviceAccount?.disableCreate) {
    const live = caches.accounts.get(metadata.namespace!, account);
    caches.accounts.store(await applyChanges(client, SERVICE_ACCOUNTS, serviceAccount(plane), live));
  }
  const {
    workspacePerms = true,
    enableDeployments = true,
    extraRules = [],
    workspaceNamespaces = [],
  } = spec.rbac ?? {};
  await applyPermissions(world, {
    ownership: owned,
    owner: plane,
    account,
    suffix: 'workspace-perms',
    namespaces: workspacePerms ? [...new Set([metadata.namespace!, ...workspaceNamespaces])] : [],
    enableDeployments,
    extraRules,
  });
}

/** A budget for several servers. With one, a node could never be drained. One of a person with the same name stays as it is. */
async function applyBudget({ client, caches }: World, plane: ControlPlane): Promise<void> {
  const { namespace, name } = plane.metadata;
  const isWanted = isShared(plane) && plane.spec.podDisruptionBudget?.enabled !== false;
  const wanted = isWanted ? disruptionBudget(plane) : undefined;
  await applyOrDelete(client, POD_DISRUPTION_BUDGETS, caches.budgets, { namespace, name, wanted }).catch((err) => {
    if (!(err instanceof NameTaken)) throw err;
  });
}

/** Creates the volume of the bundled database once. Most fields of a claim cannot change. */
async function applyVolume({ client, lookup }: World, plane: ControlPlane): Promise<void> {
  if (!plane.spec.postgres?.bundled) return;
  const { namespace = '' } = plane.metadata;
  try {
    await lookup.get(VOLUME_CLAIMS, namespace, dataClaimName(plane));
  } catch (err) {
    if (!isNotFound(err)) throw err;
    await client.create(VOLUME_CLAIMS, dataClaim(plane));
    lookup.forget(VOLUME_CLAIMS, namespace, dataClaimName(plane));
  }
}
