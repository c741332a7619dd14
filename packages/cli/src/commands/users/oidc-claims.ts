import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { type Columns, printTable } from '../../lib/output.ts';

type Claim = readonly [key: string, value: unknown];

const columns = {
  key: ([key]) => key,
  value: ([, value]) => (typeof value === 'string' ? value : JSON.stringify(value)),
} satisfies Columns<Claim>;

const flags = tableFlags(Object.keys(columns) as (keyof typeof columns)[]);

export default command(
  {
    flags,
    help: 'Shows the claims of your last sign-in with OpenID Connect. The sync of organizations, groups and roles uses them.',
    examples: [
      { does: 'Show your claims', run: 'coder users oidc-claims' },
      { does: 'Show your groups', run: "coder users oidc-claims -o json | jq '.claims.groups'" },
    ],
  },
  async (ctx, { flags: given }) => {
    const answer = await (await ctx.client()).call('GET /users/oidc-claims');
    const claims = Object.entries(answer.claims).sort(([a], [b]) => (a < b ? -1 : 1));
    if (given.output === 'json') print(ctx.io, JSON.stringify(answer, null, 2));
    else if (claims.length === 0) note(ctx.io, 'The identity provider reported no claims.');
    else printTable<Claim>(ctx, given.column, columns, claims);
  },
);
