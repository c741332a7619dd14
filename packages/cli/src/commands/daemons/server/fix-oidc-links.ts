import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../../framework/definition.ts';
import { print, printDone } from '../../../framework/io.ts';
import { yesFlag } from '../../../lib/flags.ts';
import { type Columns, printTable } from '../../../lib/output.ts';
import { confirm } from '../../../lib/prompt.ts';
import { databaseFlags, databaseOf } from './direct.ts';

interface Row {
  issuer: string;
  accounts: number;
  stays: boolean;
}

const columns = {
  issuer: (one) => one.issuer,
  accounts: (one) => String(one.accounts),
  link: (one) => (one.stays ? 'stays' : 'is reset'),
} satisfies Columns<Row>;

const flags = {
  ...databaseFlags,
  ...yesFlag,
  'issuer-url': {
    type: 'string',
    env: 'CODER_OIDC_ISSUER_URL',
    description: 'URL of the identity provider whose links stay. The server at this URL must answer.',
  },
  'dry-run': {
    type: 'bool',
    short: 'n',
    env: 'CODER_FIX_OIDC_LINKS_DRY_RUN',
    description: 'Print the changes without making them.',
  },
  'force-reset-all': {
    type: 'bool',
    env: 'CODER_FIX_OIDC_LINKS_FORCE_RESET_ALL',
    description: 'Reset all links. Cannot be used with --issuer-url.',
  },
} as const;

export default command(
  {
    flags,
    help:
      'Resets the links of accounts to identities of former OpenID Connect providers. Use it after you changed the ' +
      'provider, if people cannot sign in because their account "belongs to another identity". At the next sign-in, an ' +
      'account is linked to the identity with its email address: check first that the new provider verifies addresses.',
    examples: [
      {
        does: 'Show which links would be reset',
        run: 'coder server fix-oidc-links --issuer-url https://id.example.com -n',
      },
    ],
  },
  async (ctx, { flags: given }) => {
    const { 'issuer-url': address, 'force-reset-all': all } = given;
    if (all && address !== '') {
      throw new AppError('invalid', '--force-reset-all cannot be used with --issuer-url (CODER_OIDC_ISSUER_URL).');
    }
    if (!all && address === '') {
      throw new AppError('invalid', 'Set --issuer-url to the URL of your identity provider, or use --force-reset-all.');
    }
    const { forgetOidcLinks, listOidcIssuers, onDatabase, publishedIssuer } = await import('@ropewalk/server');
    const keep = all ? undefined : await publishedIssuer(address, ctx.signal);
    const database = databaseOf(ctx, given, 'reset links to identities');
    const found = await onDatabase(database, listOidcIssuers);
    const rows = found.map((one): Row => ({ ...one, stays: one.issuer === keep }));
    if (rows.length > 0) printTable(ctx, ['issuer', 'accounts', 'link'], columns, rows);
    const others = rows.filter(({ stays }) => !stays).reduce((sum, { accounts }) => sum + accounts, 0);
    if (others === 0) {
      print(ctx.io, keep === undefined ? 'No account has a link.' : `All links are to identities of ${keep}.`);
      return;
    }
    if (given['dry-run']) return;
    await confirm(ctx, `Reset the links of ${others} accounts?`, given.yes);
    const count = await onDatabase(database, (system) => forgetOidcLinks(system, keep));
    printDone(ctx, `Reset links: ${count}.`);
  },
);
