import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

export default command({}, async (ctx) => {
  const client = await ctx.client();
  await client.call('PUT /notifications/settings', { body: { notifier_paused: false } });
  printDone(ctx, 'Notifications are sent again.');
});
