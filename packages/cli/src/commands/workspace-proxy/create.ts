import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { ask } from '../../lib/prompt.ts';
import { printToken, tokenFlags } from './token-output.ts';

const flags = {
  name: { type: 'string', description: 'Name of the proxy.' },
  'display-name': { type: 'string', description: 'Name to display instead of the name.' },
  icon: { type: 'string', description: 'Path or URL of the icon.' },
  'no-prompt': { type: 'bool', description: 'Ask nothing, and fail without --name.' },
  ...tokenFlags,
} as const;

const DEFAULT_ICON = '/emojis/1f5fa.png';
const isIcon = (text: string) => text.startsWith('/emojis/') || /^https?:\/\//.test(text);
const ICON_HINT = 'The icon must be the path of an emoji that starts with /emojis/, or the URL of a picture.';

const help = 'Only owners of the site can create proxies. The token proves that a process is this proxy.';

export default command({ flags, help }, async (ctx, { flags: given }) => {
  if (given.icon && !isIcon(given.icon)) throw new AppError('invalid', `Invalid value for --icon: ${ICON_HINT}`);
  const client = await ctx.client();
  const asks = ctx.interactive && !given['no-prompt'];
  if (!given.name && !asks) throw new AppError('invalid', 'Missing the name of the proxy: set --name.');
  const name = given.name || (await ask(ctx, { text: 'Name' }));
  const displayName = given['display-name'] || (asks ? await ask(ctx, { text: 'Display name', fallback: name }) : name);
  const icon =
    given.icon ||
    (asks
      ? await ask(ctx, {
          text: 'Icon',
          fallback: DEFAULT_ICON,
          check: (text) => (isIcon(text) ? undefined : ICON_HINT),
        })
      : '');
  const answer = await client.call('POST /workspaceproxies', { body: { name, display_name: displayName, icon } });
  printToken(ctx, given, answer, { done: 'Created', url: client.url });
});
