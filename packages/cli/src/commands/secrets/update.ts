import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { secretFlags, secretValue } from './input.ts';

const flags = {
  ...secretFlags,
  enabled: {
    type: 'bool',
    description: 'Whether your workspaces get the secret. If they do, it needs --env or --file.',
  },
} as const;

const help =
  'A flag with an empty value, such as --file "", removes what it sets. A new value comes from standard input, from --value, or, without flags, from a question in a terminal.';

export default command({ args: { name: {} }, flags, help }, async (ctx, { args, flags: given, isSet }) => {
  const client = await ctx.client();
  const others = {
    ...(isSet('description') ? { description: given.description } : {}),
    ...(isSet('env') ? { env_name: given.env } : {}),
    ...(isSet('file') ? { file_path: given.file } : {}),
    ...(isSet('enabled') ? { enabled: given.enabled } : {}),
  };
  const asks = ctx.interactive && Object.keys(others).length === 0;
  const value = await secretValue(ctx, given, { asks });
  const { name } = await client.call('PATCH /users/{user}/secrets/{name}', {
    params: { user: 'me', name: args.name },
    body: { ...others, ...(value === undefined ? {} : { value }) },
  });
  printDone(ctx, `Updated secret ${name}.`);
});
