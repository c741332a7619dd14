import { isDeepStrictEqual } from 'node:util';
import { KubeError } from '../kube/client.ts';
import { type Condition, kubeTime } from '../kube/types.ts';
import { NameTaken } from './apply.ts';

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

/** What another namespace would have to permit. */
export class NotPermitted extends Error {
  readonly reason = 'RefNotPermitted';
}

/**
 * What the API server rejects and a person has to solve: a field of a pod is wrong, the operator may not grant what the spec asks
 * for, a name is taken, or another namespace does not permit it. Undefined for an error that a retry may solve.
 */
export function rejectionOf(err: unknown): { reason: string; message: string } | undefined {
  if (err instanceof NameTaken || err instanceof NotPermitted) return err;
  if (!(err instanceof KubeError) || (err.status !== 403 && err.status !== 422)) return undefined;
  return { reason: 'Rejected', message: err.message };
}

/** Whether two statuses are equal after JSON, where an absent and an undefined field are the same. */
export function sameStatus(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(JSON.parse(JSON.stringify(a ?? {})), JSON.parse(JSON.stringify(b ?? {})));
}
