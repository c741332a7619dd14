import { join } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';
import { readConfig } from '../../framework/config-dir.ts';
import { command } from '../../framework/definition.ts';
import { printExact } from '../../framework/io.ts';

export default command(
  {
    help: 'Scripts use it to call the API. Anyone who has it can act as you until you log out.',
    examples: [{ does: 'Pass the token to a script', run: 'CODER_SESSION_TOKEN=$(coder login token) ./report.sh' }],
  },
  async (ctx) => {
    const { url, token } = await ctx.client();
    const stored = readConfig(join(ctx.configDir, 'url')).replace(/\/+$/, '');
    // the stored token is that of the stored URL
    if (ctx.globals.token === '' && stored !== '' && url !== stored) {
      throw new AppError(
        'invalid',
        `The stored session token is for ${stored}, not ${url}. Log in with: coder login ${url}`,
      );
    }
    printExact(ctx.io, token);
  },
);
