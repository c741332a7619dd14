import { join } from 'node:path';
import { errorText } from '@ropewalk/kit/errors';
import { removeConfig } from '../../framework/config-dir.ts';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';

export default command({ flags: yesFlag }, async (ctx, { flags }) => {
  const client = await ctx.client();
  await confirm(ctx, 'Log out?', flags.yes);
  let failure: unknown;
  try {
    await client.call('POST /users/logout');
  } catch (err) {
    failure = err;
  }
  for (const name of ['session', 'url', 'organization']) removeConfig(join(ctx.configDir, name));
  if (failure) note(ctx.io, `Could not revoke the session. It stays valid until it expires. ${errorText(failure)}`);
  print(ctx.io, 'You are logged out.');
});
