import { command } from '../framework/definition.ts';
import { print } from '../framework/io.ts';
import { outputFlag } from '../lib/flags.ts';

export default command(
  {
    flags: outputFlag('text', 'json'),
  },
  async (ctx, { flags }) => {
    const { VERSION } = await import('@ropewalk/kit/version');
    if (flags.output !== 'json') {
      // workspaces' init scripts look for the word "Coder" on the first line
      print(ctx.io, `Coder ${VERSION}\nFull build of Coder, with the server`);
      return;
    }
    print(ctx.io, JSON.stringify({ version: VERSION, build_time: null, slim: false, agpl: false }, null, 2));
  },
);
