import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { tagsText } from '../../lib/format.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';
import { parameterFlags } from '../../lib/parameters.ts';
import { findTemplate } from '../../lib/template.ts';
import { namedValues } from '../../lib/values.ts';

interface Row {
  name: string;
  status: string;
  can_run: boolean;
  why?: string;
  tags: Record<string, string>;
  last_seen_at?: string;
}

const columns = {
  name: (one) => one.name,
  status: (one) => one.status,
  'can run': (one) => (one.can_run ? 'yes' : 'no'),
  why: (one) => one.why ?? (one.status === 'offline' ? 'its tags match, but it is offline' : ''),
  tags: (one) => tagsText(one.tags),
  'last seen at': (one) => one.last_seen_at ?? '',
} satisfies Columns<Row>;

const flags = {
  parameter: parameterFlags.parameter,
  ...orgFlag,
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], ['name', 'status', 'can run', 'why', 'tags']),
} as const;

const help = 'The tags of a build can depend on its parameters.';

const examples = [
  { does: 'Show which daemons can build workspaces of the template', run: 'coder provisioner explain docker' },
  {
    does: 'The same for a build with another parameter value',
    run: 'coder provisioner explain docker --parameter region=eu',
  },
];

export default command({ args: { template: {} }, flags, help, examples }, async (ctx, { args, flags: given }) => {
  const parameters = namedValues(given.parameter, 'parameter').map(({ name, value }) => [name, value]);
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const template = await findTemplate(client, organization, args.template);
  const found = await client.call('GET /templateversions/{templateversion}/provisioners', {
    params: { templateversion: template.active_version_id },
    query: parameters.length > 0 ? { parameters: JSON.stringify(Object.fromEntries(parameters)) } : {},
  });
  if (given.output === 'json') {
    print(ctx.io, JSON.stringify(found, null, 2));
    return;
  }
  const { count, available } = found.matched_provisioners;
  note(ctx.io, `Builds of ${template.name} have the tags ${tagsText(found.tags)}.`);
  note(
    ctx.io,
    `${count} of ${found.daemons.length} provisioner daemons can run them, and ${available} of these are online.`,
  );
  if (found.daemons.length > 0) printRows(ctx, given, columns, found.daemons);
});
