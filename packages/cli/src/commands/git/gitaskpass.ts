import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printExact } from '../../framework/io.ts';
import { agentClient } from './agent-client.ts';
import { untilSignedIn } from './external-token.ts';

/** A question of Git, which is the only argument of `GIT_ASKPASS`. */
export const GIT_PROMPT = /^(Username|Password) for '([^']+)'/;

/** Answers Git's question for a name or password with the credentials of an external provider. */
export default command({ args: { prompt: {} } }, async (ctx, { args }) => {
  const [, what, host] = GIT_PROMPT.exec(args.prompt) ?? [];
  if (!what || !host || !URL.canParse(host)) {
    throw new AppError('invalid', `Unexpected prompt from Git: ${JSON.stringify(args.prompt)}.`);
  }
  const url = new URL(host);
  url.username = '';
  url.password = '';
  const client = await agentClient(ctx);
  const answer = await untilSignedIn(ctx, client, { match: url.toString() });
  printExact(
    ctx.io,
    what === 'Username' ? answer.username || answer.access_token : answer.password || answer.access_token,
  );
});
