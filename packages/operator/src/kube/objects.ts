// The kinds of objects that the operator reads and applies, with the fields that it uses.
import type {
  V1DeploymentSpec,
  V1IngressSpec,
  V1JobSpec,
  V1PersistentVolumeClaimSpec,
  V1PolicyRule,
  V1ServiceSpec,
} from '@kubernetes/client-node';
import type { KubeObject } from './types.ts';

export interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
}

export interface Deployment extends KubeObject {
  spec: V1DeploymentSpec;
  status?: { observedGeneration?: number; replicas?: number; updatedReplicas?: number; readyReplicas?: number };
}

export interface Job extends KubeObject {
  spec: V1JobSpec;
  status?: { active?: number; conditions?: { type: string; status: string; lastTransitionTime?: string }[] };
}

export interface Pod extends KubeObject {
  status?: { phase?: string; conditions?: { type: string; status: string; reason?: string; message?: string }[] };
}

export interface Service extends KubeObject {
  spec: V1ServiceSpec;
}

export interface Ingress extends KubeObject {
  spec: V1IngressSpec;
}

export interface VolumeClaim extends KubeObject {
  spec: V1PersistentVolumeClaimSpec;
}

export interface Role extends KubeObject {
  rules: V1PolicyRule[];
}

export interface RoleBinding extends KubeObject {
  subjects: { kind: string; name: string; namespace: string }[];
  roleRef: { apiGroup: string; kind: string; name: string };
}

/** Whether a Job has ended: `Complete`, `Failed`, or undefined while it runs. */
export function endOfJob({ status }: Job): { type: 'Complete' | 'Failed'; at: string | undefined } | undefined {
  const end = status?.conditions?.find(
    ({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True',
  );
  return end && { type: end.type as 'Complete' | 'Failed', at: end.lastTransitionTime };
}

/** Why pods have no node, by the reason and in the words of the scheduler. Undefined if each has one. */
export function schedulingProblem(pods: readonly Pod[]): { reason: string; message: string } | undefined {
  const waiting = pods
    .filter(({ metadata }) => !metadata.deletionTimestamp)
    .sort((a, b) => a.metadata.name.localeCompare(b.metadata.name))
    .flatMap(({ status }) =>
      status?.conditions?.filter(({ type, status: is }) => type === 'PodScheduled' && is === 'False'),
    )
    .filter((found) => found !== undefined);
  const [first] = waiting;
  if (!first) return undefined;
  const { reason = 'Unschedulable', message = 'The scheduler gives no reason.' } = first;
  const count = waiting.length === 1 ? '1 pod' : `${waiting.length} pods`;
  return { reason, message: `${count} cannot be scheduled: ${message}` };
}

/** Whether the pods of a Deployment are ready and have its current template. */
export function isRolledOut(live: Deployment | undefined): boolean {
  const { replicas = 1 } = live?.spec ?? {};
  const { readyReplicas = 0, updatedReplicas = 0, observedGeneration = 0 } = live?.status ?? {};
  return (
    live !== undefined &&
    observedGeneration >= (live.metadata.generation ?? 0) &&
    updatedReplicas >= replicas &&
    readyReplicas >= replicas
  );
}
