import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

export default command({}, async (ctx) => {
  const client = await ctx.client();
  await client.call('PUT /prebuilds/settings', { body: { reconciliation_paused: false } });
  printDone(ctx, 'Prebuilt workspaces are resumed. The server creates and deletes them again.');
});
