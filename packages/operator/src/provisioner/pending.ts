import type { ProvisionerKey } from '@ropewalk/contract';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { creationNotes, isOfThatTime } from '../machinery/creation-notes.ts';
import { FINALIZER } from './names.ts';

/** The notes of keys that are about to be created. */
export const pendingKeys = creationNotes<Provisioner, 'name' | 'organizationName' | 'url'>({
  resource: PROVISIONERS,
  annotation: 'coder.com/pending-key',
  finalizer: FINALIZER,
  kind: 'pending',
  fields: ['name', 'organizationName', 'url'],
});

/** Whether the server has the pending key, and not another one of that name. */
export function existsOn(pending: { name: string; at: string }, keys: readonly ProvisionerKey[]): boolean {
  const found = keys.find(({ name }) => name === pending.name);
  return found !== undefined && isOfThatTime(pending, found);
}
