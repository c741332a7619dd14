import type { Provisioner } from '../crd/provisioner.ts';
import { isNotFound } from '../kube/client.ts';
import type { Lookup } from '../kube/lookup.ts';
import { type KubeObject, type Resource, SECRETS, type SecretKeySelector } from '../kube/types.ts';
import { organizationOf } from './names.ts';
import type { Secret } from './objects.ts';
import { ServerProblem, type Target } from './server.ts';

/** The part of a CoderControlPlane that provisioners read. */
interface ControlPlane extends KubeObject {
  spec: { image?: string };
  status?: { url?: string; operatorTokenSecretRef?: SecretKeySelector };
}

export const CONTROL_PLANES: Resource = {
  group: 'coder.com',
  version: 'v1alpha1',
  kind: 'CoderControlPlane',
  plural: 'codercontrolplanes',
};

/** The key of a Secret with an API token, unless the reference names another one. */
const TOKEN_KEY = 'token';

export interface Resolved {
  target: Target;
  image: string;
  /** The Secret with the token. */
  credentials: Required<SecretKeySelector>;
}

/** Which server a provisioner joins, with which credentials and image. @throws ServerProblem. */
export async function resolveTarget(provisioner: Provisioner, lookup: Lookup): Promise<Resolved> {
  const { spec, metadata } = provisioner;
  const plane = await controlPlaneOf(provisioner, lookup);
  const url = spec.url ?? plane?.status?.url;
  if (!url) {
    const message = `The CoderControlPlane "${plane!.metadata.name}" has no URL in its status yet.`;
    throw new ServerProblem('ControlPlaneReady', 'NoURL', message);
  }
  const image = spec.image || plane?.spec.image;
  if (!image)
    throw new ServerProblem('ControlPlaneReady', 'NoImage', 'Set image, or the image of the CoderControlPlane.');
  const credentials = await credentialsOf(provisioner, lookup);
  const token = await tokenOf(lookup, metadata.namespace!, credentials);
  return {
    target: { url: url.replace(/\/+$/, ''), token, organization: organizationOf(provisioner) },
    image,
    credentials,
  };
}

/** The Secret with the token for the server: the one of the spec, or of the CoderControlPlane. @throws ServerProblem. */
export async function credentialsOf(provisioner: Provisioner, lookup: Lookup): Promise<Required<SecretKeySelector>> {
  const own = provisioner.spec.bootstrap?.credentialsSecretRef;
  const plane = own ? undefined : await controlPlaneOf(provisioner, lookup);
  const reference = own ?? plane?.status?.operatorTokenSecretRef;
  if (reference) return { name: reference.name, key: reference.key || TOKEN_KEY };
  const message = `The CoderControlPlane "${plane!.metadata.name}" has no operator token yet. Set bootstrap.credentialsSecretRef to use another one.`;
  throw new ServerProblem('OperatorAccessReady', 'NoToken', message);
}

async function controlPlaneOf({ spec, metadata }: Provisioner, lookup: Lookup): Promise<ControlPlane | undefined> {
  return spec.controlPlaneRef && controlPlane(lookup, metadata.namespace!, spec.controlPlaneRef.name);
}

async function controlPlane(lookup: Lookup, namespace: string, name: string): Promise<ControlPlane> {
  try {
    return await lookup.get<ControlPlane>(CONTROL_PLANES, namespace, name);
  } catch (err) {
    if (!isNotFound(err)) throw err;
    const message = `There is no CoderControlPlane "${name}" in the namespace "${namespace}".`;
    throw new ServerProblem('ControlPlaneReady', 'NotFound', message);
  }
}

/** An API token from a Secret. @throws ServerProblem without it. */
export async function tokenOf(
  lookup: Lookup,
  namespace: string,
  { name, key }: Required<SecretKeySelector>,
): Promise<string> {
  let secret: Secret;
  try {
    secret = await lookup.get<Secret>(SECRETS, namespace, name);
  } catch (err) {
    if (!isNotFound(err)) throw err;
    const message = `There is no Secret "${name}" in the namespace "${namespace}". Create it with an API token in the key "${key}".`;
    throw new ServerProblem('OperatorAccessReady', 'SecretNotFound', message);
  }
  const token = Buffer.from(secret.data?.[key] ?? '', 'base64')
    .toString('utf8')
    .trim();
  if (token !== '') return token;
  const message = `The Secret "${name}" has no API token in the key "${key}".`;
  throw new ServerProblem('OperatorAccessReady', 'SecretKeyMissing', message);
}
