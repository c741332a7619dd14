import { AppError } from '@platform/kit/errors';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { agentClient } from '../../lib/agent-client.ts';

const flags = {
  extra: {
    type: 'string',
    description: 'Field of the token response to print instead of the token, as a path with dots.',
  },
} as const;

/** `coder external-auth access-token`: inside a workspace, the token of one of its owner's accounts elsewhere. */
export default command({ args: { provider: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await agentClient(ctx);
  const answer = await client.call('GET /workspaceagents/me/external-auth', { query: { id: args.provider } });
  if (answer.url) {
    // scripts open it
    print(ctx.io, answer.url);
    note(ctx.io, 'Sign in there first.');
    return 1;
  }
  if (given.extra === '') {
    print(ctx.io, answer.access_token);
    return 0;
  }
  let value: unknown = answer.token_extra;
  for (const key of given.extra.split('.')) value = (value as Record<string, unknown> | null | undefined)?.[key];
  if (value === undefined) {
    throw new AppError('not_found', `There is no ${JSON.stringify(given.extra)} with the token of ${args.provider}.`);
  }
  print(ctx.io, typeof value === 'string' ? value : JSON.stringify(value));
  return 0;
});
