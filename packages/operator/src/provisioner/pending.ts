// A key is created on the server before its text can be stored in the cluster. If the operator ends in between, nobody has
// the text. So the operator notes the name of the key on the provisioner first, in the write that also sets the finalizer.
import type { ProvisionerKey } from '@ropewalk/contract';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import type { World } from '../world.ts';
import type { RetiredKey } from './keys.ts';
import { FINALIZER } from './names.ts';

const PENDING = 'coder.com/pending-key';
/** How long a creation takes, and how much the clocks of the operator and the server may differ. */
const AROUND_MS = 60_000;

interface PendingKey extends RetiredKey {
  /** When it was noted. A key of this name from another time belongs to someone else. */
  at: string;
  /** That the operator noted it. */
  proof: string;
}

const provedWords = ({ metadata }: Provisioner, { name, organizationName, url, at }: Omit<PendingKey, 'proof'>) => [
  'pending',
  metadata.namespace!,
  metadata.name,
  name,
  organizationName,
  url,
  at,
];

/**
 * The key that the operator was about to create. It may exist, and its text may be stored. Undefined as well for a note of
 * someone else.
 */
export function pendingKey({ proofs }: Pick<World, 'proofs'>, provisioner: Provisioner): PendingKey | undefined {
  const text = provisioner.metadata.annotations?.[PENDING];
  if (text === undefined) return undefined;
  try {
    const noted = JSON.parse(text) as PendingKey;
    return proofs.holds(noted.proof, provedWords(provisioner, noted)) ? noted : undefined;
  } catch {
    return undefined;
  }
}

/** Notes a key before it is created, and that a deletion of the provisioner waits for the operator. */
export async function notePendingKey(
  { client, caches, clock, proofs }: World,
  provisioner: Provisioner,
  key: RetiredKey,
): Promise<Provisioner> {
  const { namespace = '', name, resourceVersion, finalizers = [] } = provisioner.metadata;
  const noting = { ...key, at: clock.now().toISOString() };
  const pending: PendingKey = { ...noting, proof: proofs.of(provedWords(provisioner, noting)) };
  const noted = await client.merge<Provisioner>(
    PROVISIONERS,
    { namespace, name },
    {
      metadata: {
        resourceVersion,
        finalizers: [...finalizers.filter((each) => each !== FINALIZER), FINALIZER],
        annotations: { [PENDING]: JSON.stringify(pending) },
      },
    },
  );
  caches.provisioners.store(noted);
  return noted;
}

/** Whether the server has the pending key, and not another one of that name. */
export function existsOn(pending: PendingKey, keys: readonly ProvisionerKey[]): boolean {
  const found = keys.find(({ name }) => name === pending.name);
  return found !== undefined && Math.abs(Date.parse(found.created_at) - Date.parse(pending.at)) <= AROUND_MS;
}
