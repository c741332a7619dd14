import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { secretFlags, secretValue } from './input.ts';

const flags = {
  ...secretFlags,
  enabled: {
    type: 'bool',
    default: 'true',
    description: 'Whether your workspaces get the secret. If they do, it needs --env or --file.',
  },
} as const;

const help =
  'The value comes from standard input, from --value, or from a question in a terminal. Your running workspaces get it within seconds.';

export default command({ args: { name: {} }, flags, help }, async (ctx, { args, flags: given, isSet }) => {
  const client = await ctx.client();
  const value = await secretValue(ctx, given, { asks: true });
  const { name } = await client.call('POST /users/{user}/secrets', {
    params: { user: 'me' },
    body: {
      name: args.name,
      value: value ?? '',
      description: given.description,
      env_name: given.env,
      file_path: given.file,
      ...(isSet('enabled') ? { enabled: given.enabled } : {}),
    },
  });
  printDone(ctx, `Created secret ${name}.`);
});
