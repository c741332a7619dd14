import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { orgFlag, tableFlags, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { printRows } from '../../lib/output.ts';
import { confirm } from '../../lib/prompt.ts';
import { defaultRoleColumns, roleColumnNames, roleColumns, roleFlags, roleFromFlags } from './role.ts';

const flags = { ...roleFlags, ...yesFlag, ...tableFlags(roleColumnNames, defaultRoleColumns), ...orgFlag } as const;

export default command(
  {
    args: { name: { usage: 'role_name' } },
    flags,
    help: 'Replaces the permissions of a custom role. The new ones apply to its members immediately.',
    examples: [
      {
        does: 'Change a role in an editor',
        run: 'coder organizations roles show janitor -o json > janitor.json\n      coder organizations roles update janitor --stdin < janitor.json',
      },
    ],
  },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, given.org);
    const params = { organization: organization.id };
    const roles = await client.call('GET /organizations/{organization}/members/roles', { params });
    const old = roles.find(({ name }) => name.toLowerCase() === args.name.toLowerCase());
    if (!old || old.built_in) {
      const why = old ? 'It is a built-in role.' : `Create it with: coder organizations roles create ${args.name}`;
      throw new AppError('not_found', `${organization.name} has no custom role "${args.name}". ${why}`);
    }
    const body = await roleFromFlags(ctx, args.name, given, old);
    const changed = { ...old, ...body };
    if (given['dry-run']) {
      printRows(ctx, given, roleColumns, [changed]);
      return;
    }
    if (!given.stdin) await confirm(ctx, `Change the role ${old.name} in ${organization.name}?`, given.yes);
    const role = await client.call('PUT /organizations/{organization}/members/roles', { params, body });
    printRows(ctx, given, roleColumns, [role]);
  },
);
