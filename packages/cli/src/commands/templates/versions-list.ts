import type { TemplateVersion } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';
import { allVersions, findTemplate } from '../../lib/template.ts';

type Row = TemplateVersion & { active: boolean };

const columns = {
  id: (one) => one.id,
  name: (one) => one.name,
  'created at': (one) => one.created_at,
  'created by': (one) => one.created_by.username,
  status: (one) => one.job.status[0]!.toUpperCase() + one.job.status.slice(1),
  active: (one) => (one.active ? 'Active' : ''),
  archived: (one) => (one.archived ? 'Archived' : ''),
} satisfies Columns<Row>;

const flags = {
  'include-archived': { type: 'bool', description: 'Show archived versions, too.' },
  ...orgFlag,
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
    'name',
    'created at',
    'created by',
    'status',
    'active',
  ]),
} as const;

export default command({ args: { template: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const template = await findTemplate(client, organization, args.template);
  const versions = await allVersions(client, template.id, given['include-archived']);
  if (versions.length === 0) throw new AppError('not_found', `The template ${template.name} has no versions.`);
  const column = given['include-archived'] ? [...new Set([...given.column, 'archived'])] : given.column;
  const rows = versions.map((one) => ({ ...one, active: one.id === template.active_version_id }));
  printRows(ctx, { ...given, column }, columns, rows, ({ active, ...TemplateVersion }) => ({
    TemplateVersion,
    active,
  }));
});
