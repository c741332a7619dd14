import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { note, print, printExact } from '../../framework/io.ts';
import { agentAuthFlags, outputFlag } from '../../lib/flags.ts';
import { agentClient } from './agent-client.ts';

const flags = {
  extra: {
    type: 'string',
    description: 'Field of the token response to print instead of the token, as a path with dots.',
  },
  ...outputFlag('text', 'json'),
  ...agentAuthFlags,
} as const;

/** `coder external-auth access-token`: prints a token of the workspace owner for an external service, inside a workspace. */
export default command({ args: { provider: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await agentClient(ctx, given);
  const answer = await client.call('GET /workspaceagents/me/external-auth', { query: { id: args.provider } });
  if (given.output === 'json') {
    printExact(ctx.io, JSON.stringify(answer, null, 2));
    return answer.url ? 1 : 0;
  }
  if (answer.url) {
    // scripts open this address
    print(ctx.io, answer.url);
    note(ctx.io, 'Open this address to sign in first.');
    return 1;
  }
  if (given.extra === '') {
    printExact(ctx.io, answer.access_token);
    return 0;
  }
  let value: unknown = answer.token_extra;
  for (const key of given.extra.split('.')) value = (value as Record<string, unknown> | null | undefined)?.[key];
  if (value === undefined) {
    throw new AppError(
      'not_found',
      `The token response of ${args.provider} has no field ${JSON.stringify(given.extra)}.`,
    );
  }
  printExact(ctx.io, typeof value === 'string' ? value : JSON.stringify(value));
  return 0;
});
