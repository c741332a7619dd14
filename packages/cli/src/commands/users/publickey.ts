import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';

const flags = { reset: { type: 'bool', description: 'Replace the key with a new one.' }, ...yesFlag } as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const params = { user: 'me' };
  if (given.reset) {
    await confirm(ctx, 'Replace the key? You must register the new one wherever you use the old one.', given.yes);
    await client.call('PUT /users/{user}/gitsshkey', { params });
  }
  const { public_key } = await client.call('GET /users/{user}/gitsshkey', { params });
  if (ctx.interactive) note(ctx.io, 'Git uses this public key in your workspaces. Register it with your Git host:\n');
  print(ctx.io, public_key.trim());
});
