import { join } from 'node:path';
import { errorText } from '@ropewalk/kit/errors';
import { readConfig, removeConfig } from '../../framework/config-dir.ts';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { removeSession } from '../../framework/session-store.ts';
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
  const left = await removeSession(ctx, readConfig(join(ctx.configDir, 'url')));
  for (const name of ['url', 'organization']) removeConfig(join(ctx.configDir, name));
  if (left) note(ctx.io, `${left.message} The token of the session is still in it.`);
  if (failure) note(ctx.io, `Could not revoke the session. It stays valid until it expires. ${errorText(failure)}`);
  print(ctx.io, 'You are logged out.');
});
