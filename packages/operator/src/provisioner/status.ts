import type { ProvisionerDaemon } from '@ropewalk/contract';
import type { ProvisionerStatus } from '../crd/provisioner.ts';
import type { schedulingProblem } from '../kube/objects.ts';
import type { NewCondition } from '../machinery/conditions.ts';
import { condition } from '../machinery/status.ts';
import type { ServerProblem } from './server.ts';

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

/** Why daemons do not start. */
export type PodProblem = ReturnType<typeof schedulingProblem>;

/** Ready means that the daemons are registered with the server, not only that their pods run. */
export function readyCondition(registered: number, replicas: number, problem: PodProblem): NewCondition {
  if (replicas === 0) return condition('Ready', true, 'ScaledToZero', 'No daemon is needed now.');
  const message = `${registered} of ${replicas} daemons are registered with the server.`;
  if (registered >= replicas) return condition('Ready', true, 'Registered', message);
  return condition('Ready', false, problem?.reason ?? 'WaitingForDaemons', withProblem(message, problem));
}

export const withProblem = (message: string, problem: PodProblem): string =>
  problem ? `${message} ${problem.message}` : message;

/** The daemons in status, in a stable order. */
export function daemonsInStatus(daemons: readonly ProvisionerDaemon[]): NonNullable<ProvisionerStatus['daemons']> {
  return daemons
    .map(({ name, status, version }) => ({ name, status: status ?? 'offline', version }))
    .sort((a, b) => a.name.localeCompare(b.name));
}
