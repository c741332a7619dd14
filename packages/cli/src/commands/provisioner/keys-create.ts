import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { namedValues } from '../../lib/values.ts';

const flags = {
  tag: {
    type: 'string[]',
    short: 't',
    env: 'CODER_PROVISIONERD_TAGS',
    description: 'Tag of the daemons that use this key, as key=value. May be repeated.',
  },
  ...orgFlag,
} as const;

const examples = [
  { does: 'Create a key for daemons in one region', run: 'coder provisioner keys create eu-daemons --tag region=eu' },
];

export default command({ args: { name: {} }, flags, examples }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client();
  const tags = Object.fromEntries(namedValues(given.tag, 'tag').map(({ name, value }) => [name, value]));
  const organization = await findOrganization(client, given.org);
  const { key } = await client.call('POST /organizations/{organization}/provisionerkeys', {
    params: { organization: organization.id },
    body: { name: args.name, tags },
  });
  print(
    ctx.io,
    `Successfully created provisioner key ${args.name}! Save this authentication token, it will not be shown again.\n\n${key}`,
  );
});
