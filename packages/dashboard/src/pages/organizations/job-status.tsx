import type { ProvisionerJobStatus } from '@ropewalk/contract';
import { Status } from '../../ui/badge.tsx';
import type { Tone } from '../../ui/classes.ts';

export const JOB_STATUSES: Record<ProvisionerJobStatus, { tone: Tone; name: string }> = {
  pending: { tone: 'warn', name: 'Pending' },
  running: { tone: 'busy', name: 'Running' },
  succeeded: { tone: 'good', name: 'Succeeded' },
  canceling: { tone: 'warn', name: 'Canceling' },
  canceled: { tone: 'neutral', name: 'Canceled' },
  failed: { tone: 'bad', name: 'Failed' },
  unknown: { tone: 'neutral', name: 'Unknown' },
};

export function JobStatus({ status }: { status: ProvisionerJobStatus }) {
  const { tone, name } = JOB_STATUSES[status];
  return <Status tone={tone}>{name}</Status>;
}
