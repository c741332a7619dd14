import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

/** The command that turns the registration of apps on or off. */
export const setRegistration = (enabled: boolean) =>
  command({}, async (ctx) => {
    const client = await ctx.client();
    await client.call('PUT /oauth2-provider/settings', { body: { dynamic_client_registration_enabled: enabled } });
    printDone(ctx, `Dynamic client registration is now ${enabled ? 'enabled' : 'disabled'}.`);
  });
