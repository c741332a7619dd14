import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

/** The command that enables or disables a secret. */
export const setEnabled = (enabled: boolean) =>
  command({ args: { name: {} } }, async (ctx, { args }) => {
    const client = await ctx.client();
    const params = { user: 'me', name: args.name };
    const { name } = await client.call('PATCH /users/{user}/secrets/{name}', { params, body: { enabled } });
    printDone(ctx, `${enabled ? 'Enabled' : 'Disabled'} secret ${name}.`);
  });
