import type { ProvisionerDaemon } from '@platform/contract';
import { PROVISIONERS, type Provisioner, type ProvisionerStatus } from '../crd/provisioner.ts';
import { mergeConditions, type NewCondition, sameStatus } from '../machinery/conditions.ts';
import type { ServerProblem } from './server.ts';
import type { World } from './world.ts';

export const condition = (type: string, ok: boolean, reason: string, message = ''): NewCondition => ({
  type,
  status: ok ? 'True' : 'False',
  reason,
  message,
});

/** The conditions of a server that cannot be used. The daemons that run continue. */
export function problemConditions(problem: ServerProblem): NewCondition[] {
  const { concerns, reason, message } = problem;
  const reachable = concerns === 'OperatorAccessReady' && ['Unauthorized', 'Forbidden'].includes(reason);
  return [
    ...(reachable ? [condition('ControlPlaneReady', true, 'Reachable')] : []),
    condition(concerns, false, reason, message),
    condition('Ready', false, reason, message),
  ];
}

/** Ready means that the daemons are registered with the server, not only that their pods run. */
export function readyCondition(registered: number, replicas: number): NewCondition {
  if (replicas === 0) return condition('Ready', true, 'ScaledToZero', 'No daemon is needed now.');
  const message = `${registered} of ${replicas} daemons are registered with the server.`;
  return condition(
    'Ready',
    registered >= replicas,
    registered >= replicas ? 'Registered' : 'WaitingForDaemons',
    message,
  );
}

/** The daemons in status, in a stable order. */
export function daemonsInStatus(daemons: readonly ProvisionerDaemon[]): NonNullable<ProvisionerStatus['daemons']> {
  return daemons
    .map(({ name, status, version }) => ({ name, status: status ?? 'offline', version }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** Writes what has changed in a status. Fields that `changes` does not name stay. */
export async function writeStatus(
  { client, caches, clock }: World,
  provisioner: Provisioner,
  changes: Omit<ProvisionerStatus, 'conditions'>,
  conditions: readonly NewCondition[],
): Promise<void> {
  const { status: old = {}, metadata } = provisioner;
  const generation = metadata.generation ?? 0;
  const status: ProvisionerStatus = {
    ...old,
    ...changes,
    observedGeneration: generation,
    conditions: mergeConditions(old.conditions ?? [], conditions, generation, clock.now()),
  };
  if (sameStatus(old, status)) return;
  const { name, namespace } = metadata;
  const written = await client.apply(
    PROVISIONERS,
    { metadata: { name, namespace: namespace! }, status } as unknown as Provisioner,
    'status',
  );
  caches.provisioners.store(written);
}
