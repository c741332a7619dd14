import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { ownership } from '../machinery/owned.ts';

/** The labels of a provisioner's objects. */
export const owned = ownership<Provisioner>(PROVISIONERS, 'provisioner');

/** A deletion waits until the operator has deleted the keys on the server. */
export const FINALIZER = 'coder.com/provisioner-key-cleanup';

export const deploymentName = ({ metadata }: Provisioner): string => `${metadata.name}-provisioner`;
export const accountName = deploymentName;

export function organizationOf({ spec }: { spec: Pick<Provisioner['spec'], 'organizationName'> }): string {
  return spec.organizationName || 'default';
}

/** Where the key is stored. */
export function keySecretOf({ metadata, spec }: Provisioner): { name: string; key: string } {
  return { name: spec.key?.secretName || `${metadata.name}-provisioner-key`, key: spec.key?.secretKey || 'key' };
}
