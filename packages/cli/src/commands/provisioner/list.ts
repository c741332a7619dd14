import type { ProvisionerDaemon } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { limitFlag, orgFlag, tableFlags } from '../../lib/flags.ts';
import { tagsText } from '../../lib/format.ts';
import { findOrganization } from '../../lib/organization.ts';
import { noteOthers } from '../../lib/other-versions.ts';
import { type Columns, printRows } from '../../lib/output.ts';

/** A daemon with the name of its organization. */
type Row = ProvisionerDaemon & { organization_name: string };

const columns = {
  id: (one) => one.id,
  'organization id': (one) => one.organization_id,
  'created at': (one) => one.created_at,
  'last seen at': (one) => one.last_seen_at ?? '',
  name: (one) => one.name,
  version: (one) => one.version,
  'api version': (one) => one.api_version,
  engines: (one) => (one.engines ?? []).join(', '),
  tags: (one) => tagsText(one.tags),
  'key name': (one) => one.key_name ?? '',
  status: (one) => one.status ?? '',
  'current job id': (one) => one.current_job?.id ?? '',
  'current job status': (one) => one.current_job?.status ?? '',
  'current job template name': (one) => one.current_job?.template_name ?? '',
  'current job template icon': (one) => one.current_job?.template_icon ?? '',
  'current job template display name': (one) => one.current_job?.template_display_name ?? '',
  'previous job id': (one) => one.previous_job?.id ?? '',
  'previous job status': (one) => one.previous_job?.status ?? '',
  'previous job template name': (one) => one.previous_job?.template_name ?? '',
  'previous job template icon': (one) => one.previous_job?.template_icon ?? '',
  'previous job template display name': (one) => one.previous_job?.template_display_name ?? '',
  organization: (one) => one.organization_name,
} satisfies Columns<Row>;

const STATUSES = ['offline', 'idle', 'busy'] as const;

const flags = {
  status: {
    type: 'string[]',
    short: 's',
    env: 'CODER_PROVISIONER_LIST_STATUS',
    values: STATUSES,
    description: `Show only daemons with this status: ${STATUSES.join(', ')}. Separated by commas.`,
  },
  'show-offline': {
    type: 'bool',
    short: 'f',
    env: 'CODER_PROVISIONER_SHOW_OFFLINE',
    description: 'Show offline daemons, too.',
  },
  'max-age': {
    type: 'duration',
    short: 'm',
    env: 'CODER_PROVISIONER_LIST_MAX_AGE',
    description: 'Show only daemons that the server has seen within this time, such as 1h. Default: no limit.',
  },
  ...limitFlag('CODER_PROVISIONER_LIST_LIMIT'),
  ...orgFlag,
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
    'created at',
    'last seen at',
    'key name',
    'name',
    'version',
    'status',
    'tags',
  ]),
} as const;

export default command({ flags }, async (ctx, { flags: given, isSet }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const daemons = await client.call('GET /organizations/{organization}/provisionerdaemons', {
    params: { organization: organization.id },
    query: {
      limit: given.limit ?? 50,
      offline: given['show-offline'],
      ...(given.status.length > 0 ? { status: given.status.join(',') } : {}),
      ...(isSet('max-age') ? { max_age: `${given['max-age']}ms` } : {}),
    },
  });
  if (daemons.length === 0 && given.output !== 'json') {
    const hint = given['show-offline'] || given.status.length > 0 ? '' : ' To see offline ones, use --show-offline.';
    note(ctx.io, `No provisioner daemons found.${hint}`);
    return;
  }
  if (given.output !== 'json') {
    const { version } = await client.call('GET /buildinfo');
    noteOthers(ctx.io, version, daemons, (names) => `${names}. Start them again with the server's version.`);
  }
  const rows = daemons.map((one) => ({ ...one, organization_name: organization.name }));
  printRows(ctx, given, columns, rows);
});
