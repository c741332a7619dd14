import type { Caches } from '../caches.ts';
import { CONTROL_PLANES, type ControlPlane } from '../crd/control-plane.ts';
import { PROVISIONERS, type Provisioner, type ProvisionerSpec } from '../crd/provisioner.ts';
import { isNotFound } from '../kube/client.ts';
import type { Lookup } from '../kube/lookup.ts';
import type { Secret } from '../kube/objects.ts';
import { isGranted } from '../kube/reference-grants.ts';
import { type ObjectMeta, SECRETS, type SecretKeySelector } from '../kube/types.ts';
import { organizationOf } from './names.ts';
import { ServerProblem, type Target } from './server.ts';

/** The key of a Secret with a token, unless the reference names another one. */
export const TOKEN_KEY = 'token';

/** A Secret with an API token. */
export interface Credentials extends Required<SecretKeySelector> {
  namespace: string;
}

export interface ResolvedServer {
  target: Target;
  credentials: Credentials;
}

export interface Resolved extends ResolvedServer {
  image: string;
}

/** The part of a provisioner that decides which server it joins, and with which token. */
export interface Joining {
  metadata: Pick<ObjectMeta, 'namespace' | 'name'>;
  spec: Pick<ProvisionerSpec, 'url' | 'controlPlaneRef' | 'bootstrap' | 'organizationName'>;
}

/** Where control planes and Secrets are found. */
export interface Finding {
  caches: Caches;
  lookup: Lookup;
}

/** Whether a provisioner joins this control plane. */
export function isReferredTo({ metadata }: ControlPlane, provisioner: Provisioner): boolean {
  const wanted = referenceOf(provisioner);
  return wanted?.name === metadata.name && wanted.namespace === metadata.namespace;
}

function referenceOf({ spec, metadata }: Joining): { namespace: string; name: string } | undefined {
  const wanted = spec.controlPlaneRef;
  return wanted && { namespace: wanted.namespace || metadata.namespace!, name: wanted.name };
}

/** Which server a provisioner joins, with which credentials and image. @throws ServerProblem. */
export async function resolveTarget(provisioner: Provisioner, finding: Finding): Promise<Resolved> {
  const server = await resolveServer(provisioner, finding);
  const plane = await controlPlaneOf(provisioner, finding);
  const image = provisioner.spec.image || plane?.spec.image || plane?.status?.image;
  if (image) return { ...server, image };
  throw new ServerProblem('ControlPlaneReady', 'NoImage', 'Set image, or the image of the CoderControlPlane.');
}

/** Which server a provisioner joins, and with which credentials. @throws ServerProblem. */
export async function resolveServer(provisioner: Joining, finding: Finding): Promise<ResolvedServer> {
  const plane = await controlPlaneOf(provisioner, finding);
  const url = provisioner.spec.url ?? plane?.status?.url;
  if (!url) {
    const message = `The CoderControlPlane "${plane!.metadata.name}" has no URL in its status yet.`;
    throw new ServerProblem('ControlPlaneReady', 'NoURL', message);
  }
  const credentials = await credentialsOf(provisioner, finding);
  const token = await tokenOf(finding.lookup, credentials);
  return {
    target: { url: url.replace(/\/+$/, ''), token, organization: organizationOf(provisioner) },
    credentials,
  };
}

/** The Secret with the token for the server: the one of the spec, or of the CoderControlPlane. @throws ServerProblem. */
export async function credentialsOf(provisioner: Joining, finding: Finding): Promise<Credentials> {
  const own = provisioner.spec.bootstrap?.credentialsSecretRef;
  const plane = own ? undefined : await controlPlaneOf(provisioner, finding);
  const reference = own ?? plane?.status?.operatorTokenSecretRef;
  const { namespace = '' } = (plane ?? provisioner).metadata;
  if (reference) return { namespace, name: reference.name, key: reference.key || TOKEN_KEY };
  const message = `The CoderControlPlane "${plane!.metadata.name}" has no operator token yet. Set bootstrap.credentialsSecretRef to use another one.`;
  throw new ServerProblem('OperatorAccessReady', 'NoToken', message);
}

async function controlPlaneOf(provisioner: Joining, finding: Finding): Promise<ControlPlane | undefined> {
  const wanted = referenceOf(provisioner);
  if (!wanted) return undefined;
  const { namespace, name } = wanted;
  const from = provisioner.metadata.namespace!;
  if (
    namespace !== from &&
    !(await isGranted(finding.lookup, { kind: PROVISIONERS, namespace: from }, { kind: CONTROL_PLANES, ...wanted }))
  ) {
    const message = `No ReferenceGrant in the namespace "${namespace}" lets CoderProvisioners of "${from}" use the CoderControlPlane "${name}".`;
    throw new ServerProblem('ControlPlaneReady', 'RefNotPermitted', message);
  }
  const plane = finding.caches.controlPlanes.get(namespace, name);
  if (plane) return plane;
  const message = `There is no CoderControlPlane "${name}" in the namespace "${namespace}".`;
  throw new ServerProblem('ControlPlaneReady', 'NotFound', message);
}

/** A token from a Secret. `what` names it to a person. @throws ServerProblem without it. */
export async function tokenOf(
  lookup: Lookup,
  { namespace, name, key }: Credentials,
  what = 'an API token',
): Promise<string> {
  let secret: Secret;
  try {
    secret = await lookup.get<Secret>(SECRETS, namespace, name);
  } catch (err) {
    if (!isNotFound(err)) throw err;
    const message = `There is no Secret "${name}" in the namespace "${namespace}". Create it with ${what} in the key "${key}".`;
    throw new ServerProblem('OperatorAccessReady', 'SecretNotFound', message);
  }
  const token = Buffer.from(secret.data?.[key] ?? '', 'base64')
    .toString('utf8')
    .trim();
  if (token !== '') return token;
  const message = `The Secret "${name}" has nothing in the key "${key}". Store ${what} there.`;
  throw new ServerProblem('OperatorAccessReady', 'SecretKeyMissing', message);
}
