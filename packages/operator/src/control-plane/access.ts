import type { ControlPlane } from '../crd/control-plane.ts';
import type { NewCondition } from '../machinery/conditions.ts';
import { condition } from '../machinery/status.ts';
import { clientFor, problemOf } from '../provisioner/server.ts';

/** Whether the servers accept the operator's token. */
export async function accessCondition(
  { spec }: ControlPlane,
  { url, token, running }: { url: string; token: string | undefined; running: boolean },
): Promise<NewCondition> {
  const type = 'OperatorAccessReady';
  if (token === undefined) return condition(type, false, 'Disabled', 'operatorAccess.disabled is set.');
  if (!running) return condition(type, false, 'NoServer', 'No server is ready yet.');
  const organization = spec.extraEnv?.find(({ name }) => name === 'CODER_OPERATOR_ORGANIZATION')?.value ?? 'default';
  try {
    await clientFor({ url, token }).call('GET /organizations/{organization}/provisionerkeys', {
      params: { organization },
    });
    return condition(type, true, 'TokenAccepted');
  } catch (err) {
    const { reason, message } = problemOf(err, { url, organization });
    return condition(type, false, reason, message);
  }
}
