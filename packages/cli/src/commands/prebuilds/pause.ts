import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

export default command({}, async (ctx) => {
  const client = await ctx.client();
  await client.call('PUT /prebuilds/settings', { body: { reconciliation_paused: true } });
  printDone(ctx, 'Prebuilt workspaces are paused. The server creates and deletes none until you resume.');
});
