import { command } from '../framework/definition.ts';
import { print } from '../framework/io.ts';
import { outputFlag } from '../lib/flags.ts';

declare global {
  /** Whether this executable has only the agent and the commands. Set by the executable. */
  var PLATFORM_SLIM: boolean | undefined;
}

export default command(
  {
    flags: outputFlag('text', 'json'),
  },
  async (ctx, { flags }) => {
    const slim = globalThis.PLATFORM_SLIM ?? false;
    const { VERSION } = await import('@ropewalk/kit/version');
    if (flags.output !== 'json') {
      // workspaces' init scripts look for the word "Coder" on the first line
      print(
        ctx.io,
        `Coder ${VERSION}\n${slim ? 'Slim build of Coder, without the server' : 'Full build of Coder, with the server'}`,
      );
      return;
    }
    print(ctx.io, JSON.stringify({ version: VERSION, build_time: null, slim, agpl: false }, null, 2));
  },
);
