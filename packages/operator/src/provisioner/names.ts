import type { Provisioner } from '../crd/provisioner.ts';
import type { KubeObject } from '../kube/types.ts';

/** The informers watch objects with this label only. */
export const MANAGED = { 'app.kubernetes.io/managed-by': 'coder-operator' } as const;
const NAME = 'coder.com/provisioner';
const NAMESPACE = 'coder.com/provisioner-namespace';

/** The labels of each object that belongs to a provisioner, also in other namespaces. */
export function labelsOf({ metadata }: Provisioner): Record<string, string> {
  return {
    ...MANAGED,
    'app.kubernetes.io/name': 'coder-provisioner',
    [NAME]: metadata.name,
    [NAMESPACE]: metadata.namespace!,
  };
}

/** The labels that select its pods. */
export function selectorOf({ metadata }: Provisioner): Record<string, string> {
  return { 'app.kubernetes.io/name': 'coder-provisioner', [NAME]: metadata.name };
}

/** The key of the provisioner that an object belongs to. */
export function provisionerOf({ metadata: { labels = {} } }: KubeObject): string | undefined {
  const name = labels[NAME];
  const namespace = labels[NAMESPACE];
  return name && namespace ? `${namespace}/${name}` : undefined;
}

export const deploymentName = ({ metadata }: Provisioner): string => `${metadata.name}-provisioner`;
export const accountName = deploymentName;

export function organizationOf({ spec }: Provisioner): string {
  return spec.organizationName || 'default';
}

/** Where the key is stored. */
export function keySecretOf({ metadata, spec }: Provisioner): { name: string; key: string } {
  return { name: spec.key?.secretName || `${metadata.name}-provisioner-key`, key: spec.key?.secretKey || 'key' };
}
