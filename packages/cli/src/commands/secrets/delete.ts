import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';

const help = 'Files with the value stay in your workspaces.';

export default command({ args: { name: {} }, flags: yesFlag, help }, async (ctx, { args: { name }, flags }) => {
  const client = await ctx.client();
  await confirm(ctx, `Delete secret ${name}?`, flags.yes);
  await client.call('DELETE /users/{user}/secrets/{name}', { params: { user: 'me', name } });
  printDone(ctx, `Deleted secret ${name} at ${new Date().toString().slice(4, 24)}.`);
});
