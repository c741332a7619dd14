import type { ProvisionerJob } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { limitFlag, orgFlag, tableFlags } from '../../lib/flags.ts';
import { tagsText } from '../../lib/format.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const STATUSES = ['pending', 'running', 'succeeded', 'canceling', 'canceled', 'failed', 'unknown'] as const;

/** A job with the name of its organization. */
type Row = ProvisionerJob & { organization_name: string };

const columns = {
  id: (one) => one.id,
  'created at': (one) => one.created_at,
  'started at': (one) => one.started_at ?? '',
  'completed at': (one) => one.completed_at ?? '',
  'canceled at': (one) => one.canceled_at ?? '',
  error: (one) => one.error ?? '',
  'error code': (one) => one.error_code ?? '',
  status: (one) => one.status,
  'worker id': (one) => one.worker_id ?? '',
  'worker name': (one) => one.worker_name ?? '',
  'file id': (one) => one.file_id,
  tags: (one) => tagsText(one.tags),
  queue: (one) => (one.queue_position > 0 ? `${one.queue_position}/${one.queue_size}` : ''),
  'pending reason': (one) => one.pending_reason?.message ?? '',
  'queue position': (one) => String(one.queue_position),
  'queue size': (one) => String(one.queue_size),
  'organization id': (one) => one.organization_id,
  'initiator id': (one) => one.initiator_id,
  'template version id': (one) => one.input.template_version_id ?? '',
  'workspace build id': (one) => one.input.workspace_build_id ?? '',
  type: (one) => one.type,
  'available workers': (one) => (one.available_workers ?? []).join(','),
  'template version name': (one) => one.metadata.template_version_name,
  'template id': (one) => one.metadata.template_id ?? '',
  'template name': (one) => one.metadata.template_name,
  'template display name': (one) => one.metadata.template_display_name || one.metadata.template_name,
  'template icon': (one) => one.metadata.template_icon,
  'workspace id': (one) => one.metadata.workspace_id ?? '',
  'workspace name': (one) => one.metadata.workspace_name ?? '',
  'workspace build transition': (one) => one.metadata.workspace_build_transition ?? '',
  'logs overflowed': (one) => String(one.logs_overflowed),
  organization: (one) => one.organization_name,
} satisfies Columns<Row>;

const flags = {
  status: {
    type: 'string[]',
    short: 's',
    env: 'CODER_PROVISIONER_JOB_LIST_STATUS',
    values: STATUSES,
    description: `Show only jobs with this status: ${STATUSES.join(', ')}. Separated by commas.`,
  },
  initiator: {
    type: 'string',
    short: 'i',
    env: 'CODER_PROVISIONER_JOB_LIST_INITIATOR',
    description: 'Show only jobs that this user started: a username, an ID or me.',
  },
  ...limitFlag('CODER_PROVISIONER_JOB_LIST_LIMIT'),
  ...orgFlag,
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
    'created at',
    'id',
    'type',
    'template display name',
    'status',
    'queue',
    'tags',
  ]),
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const initiator =
    given.initiator === '' ? undefined : await client.call('GET /users/{user}', { params: { user: given.initiator } });
  const jobs = await client.call('GET /organizations/{organization}/provisionerjobs', {
    params: { organization: organization.id },
    query: {
      limit: given.limit ?? 50,
      ...(given.status.length > 0 ? { status: given.status.join(',') } : {}),
      ...(initiator ? { initiator: initiator.id } : {}),
    },
  });
  if (jobs.length === 0 && given.output !== 'json') {
    note(ctx.io, 'No provisioner jobs found.');
    return;
  }
  if (given.output !== 'json') {
    for (const one of jobs) if (one.pending_reason) note(ctx.io, `${one.id} is waiting: ${one.pending_reason.message}`);
  }
  const rows = jobs.map((one) => ({ ...one, organization_name: organization.name }));
  printRows(ctx, given, columns, rows);
});
