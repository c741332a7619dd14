import { isDeepStrictEqual } from 'node:util';
import { type Condition, kubeTime } from '../kube/types.ts';

export type NewCondition = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/**
 * The conditions of a status after `updates`. A condition's time changes only with its status, so that an unchanged
 * state gives an equal list. Conditions without an update stay.
 */
export function mergeConditions(
  old: readonly Condition[],
  updates: readonly NewCondition[],
  generation: number,
  now: Date,
): Condition[] {
  const merged = updates.map((update) => {
    const before = old.find(({ type }) => type === update.type);
    const lastTransitionTime = before?.status === update.status ? before.lastTransitionTime : kubeTime(now);
    return { ...update, lastTransitionTime, observedGeneration: generation };
  });
  const others = old.filter(({ type }) => !updates.some((update) => update.type === type));
  return [...merged, ...others].sort((a, b) => a.type.localeCompare(b.type));
}

/** Whether two statuses are equal after JSON, where an absent and an undefined field are the same. */
export function sameStatus(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(JSON.parse(JSON.stringify(a ?? {})), JSON.parse(JSON.stringify(b ?? {})));
}
