import type { Client } from '@platform/client';
import { AppError } from '@platform/kit/errors';
import { readConfig } from '../framework/config-dir.ts';
import type { Context } from '../framework/context.ts';

/**
 * Speaks for the agent of the workspace in which this runs; what the agent starts has the address and the token.
 * Throws `unauthenticated` elsewhere.
 */
export async function agentClient(ctx: Context): Promise<Client> {
  const { 'agent-url': url, 'agent-token': given, 'agent-token-file': file } = ctx.globals;
  const token = given || (file ? readConfig(file) : '');
  if (!url || !token) {
    throw new AppError(
      'unauthenticated',
      'This command is for use inside a workspace: CODER_AGENT_URL and CODER_AGENT_TOKEN are not set.',
    );
  }
  return ctx.clientOf(url, token);
}
