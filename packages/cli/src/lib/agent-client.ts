import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { readConfig } from '../framework/config-dir.ts';
import type { Context } from '../framework/context.ts';

/**
 * A client with the credentials of the agent of this workspace. The agent passes its URL and its token to the processes
 * that it starts. @throws AppError `unauthenticated` outside a workspace.
 */
export async function agentClient(ctx: Context): Promise<Client> {
  const { 'agent-url': url, 'agent-token': given, 'agent-token-file': file } = ctx.globals;
  const token = given || (file ? readConfig(file) : '');
  if (!url || !token) {
    throw new AppError(
      'unauthenticated',
      'Run this command inside a workspace: CODER_AGENT_URL and CODER_AGENT_TOKEN are not set.',
    );
  }
  return ctx.clientOf(url, token);
}
