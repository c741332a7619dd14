import type { UserSecret } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { ago } from '../../lib/format.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const columns = {
  name: (one) => one.name,
  created: (one) => ago(one.created_at),
  updated: (one) => ago(one.updated_at),
  env: (one) => one.env_name,
  file: (one) => one.file_path,
  enabled: (one) => String(one.enabled),
  description: (one) => one.description,
} satisfies Columns<UserSecret>;

const flags = tableFlags(Object.keys(columns) as (keyof typeof columns)[]);
const help = 'The values are not shown. The server returns them only to the agents of your workspaces.';

export default command(
  { args: { name: { optional: true } }, flags, help },
  async (ctx, { args: { name }, flags: given }) => {
    const client = await ctx.client();
    const params = { user: 'me' };
    const secrets =
      name === undefined
        ? await client.call('GET /users/{user}/secrets', { params })
        : [await client.call('GET /users/{user}/secrets/{name}', { params: { ...params, name } })];
    if (secrets.length === 0 && given.output === 'table') note(ctx.io, 'No secrets found.');
    else printRows(ctx, given, columns, secrets);
  },
);
