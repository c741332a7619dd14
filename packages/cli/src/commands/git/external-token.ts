import type { Client } from '@ropewalk/client';
import type { AgentExternalAuthResponse } from '@ropewalk/contract';
import type { Context } from '../../framework/context.ts';
import { note } from '../../framework/io.ts';

const ASK_MS = 1_000;

/** The token of an external provider for this workspace. Waits until the user has signed in there. */
export async function untilSignedIn(
  ctx: Context,
  client: Client,
  query: { match?: string; id?: string },
): Promise<AgentExternalAuthResponse> {
  let isShown = false;
  for (;;) {
    const answer = await client.call('GET /workspaceagents/me/external-auth', { query });
    if (!answer.url) return answer;
    if (!isShown) note(ctx.io, `Sign in with your browser to continue:\n\n  ${answer.url}\n`);
    isShown = true;
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    ctx.signal.throwIfAborted();
  }
}
