import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { readConfig } from '../../framework/config-dir.ts';
import type { Context } from '../../framework/context.ts';

export interface AgentAuthValues {
  auth: string;
  'agent-name': string;
}

/**
 * A client with the credentials of the agent of this workspace. The agent passes its URL and its token to the processes
 * that it starts. Instead of the token, the machine's cloud can prove which agent this is.
 * @throws AppError `unauthenticated` outside a workspace, `invalid` for an unknown authentication
 */
export async function agentClient(ctx: Context, by?: AgentAuthValues): Promise<Client> {
  const { 'agent-url': url, 'agent-token': given, 'agent-token-file': file } = ctx.globals;
  if (by && by.auth !== 'token') return identifiedClient(ctx, url, by);
  const token = given || (file ? readConfig(file) : '');
  if (!url || !token) {
    throw new AppError(
      'unauthenticated',
      'Run this command inside a workspace: CODER_AGENT_URL and CODER_AGENT_TOKEN are not set.',
    );
  }
  return ctx.clientOf(url, token);
}

async function identifiedClient(ctx: Context, url: string, given: AgentAuthValues): Promise<Client> {
  const { parseAuth, proofOfIdentity } = await import('@ropewalk/client/instance-identity');
  const auth = parseAuth(given.auth);
  if (auth === 'token' || !url)
    throw new AppError('unauthenticated', 'Run this command inside a workspace: CODER_AGENT_URL is not set.');
  const metadataUrl = ctx.env['CODER_AGENT_METADATA_URL'];
  const proof = await proofOfIdentity(auth, { name: given['agent-name'], metadataUrl });
  const anonymous = await ctx.clientOf(url, '');
  const { session_token: token } = await anonymous.call(`POST /workspaceagents/${auth}`, { body: proof as never });
  return ctx.clientOf(url, token);
}
