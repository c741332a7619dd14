import type { Clock } from '@ropewalk/kit';
import type { KubeClient } from '../kube/client.ts';
import type { Condition, KubeObject, Resource } from '../kube/types.ts';
import { mergeConditions, type NewCondition, sameStatus } from './conditions.ts';
import type { Informer } from './informer.ts';

export const condition = (type: string, status: boolean | 'Unknown', reason: string, message = ''): NewCondition => ({
  type,
  status: status === 'Unknown' ? status : status ? 'True' : 'False',
  reason,
  message,
});

interface WithStatus extends KubeObject {
  status?: { conditions?: Condition[]; observedGeneration?: number };
}

/** Writes what has changed in a status. Fields that `changes` does not name stay. */
export async function writeStatus<O extends WithStatus>(
  { client, clock }: { client: KubeClient; clock: Clock },
  { resource, informer, object }: { resource: Resource; informer: Informer<O>; object: O },
  changes: Omit<NonNullable<O['status']>, 'conditions'>,
  conditions: readonly NewCondition[],
): Promise<void> {
  const { metadata } = object;
  const old = object.status ?? {};
  const generation = metadata.generation ?? 0;
  const status = {
    ...old,
    ...changes,
    observedGeneration: generation,
    conditions: mergeConditions(old.conditions ?? [], conditions, generation, clock.now()),
  };
  if (sameStatus(old, status)) return;
  const { name, namespace } = metadata;
  const written = await client.apply(
    resource,
    { metadata: { name, namespace: namespace! }, status } as unknown as O,
    'status',
  );
  informer.store(written);
}
