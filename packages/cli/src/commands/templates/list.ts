import type { Template } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { ago, roughDuration } from '../../lib/format.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const columns = {
  name: (one) => one.name,
  'created at': (one) => one.created_at,
  'last updated': (one) => ago(one.updated_at),
  'organization id': (one) => one.organization_id,
  'organization name': (one) => one.organization_name,
  provisioner: (one) => one.provisioner,
  'active version id': (one) => one.active_version_id,
  'used by': (one) => `${Math.max(0, one.active_user_count)} ${one.active_user_count === 1 ? 'user' : 'users'}`,
  'default ttl': (one) => (one.default_ttl_ms ? roughDuration(one.default_ttl_ms) : ''),
} satisfies Columns<Template>;

const flags = tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
  'name',
  'organization name',
  'last updated',
  'used by',
]);

export default command({ flags }, async (ctx, { flags: given }) => {
  const templates = await (await ctx.client()).call('GET /templates');
  if (templates.length === 0 && given.output !== 'json') {
    note(ctx.io, 'No templates found. Write an example with: coder templates init');
    return;
  }
  printRows(ctx, given, columns, templates, (Template) => ({ Template }));
});
