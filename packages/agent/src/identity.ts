import { type AgentAuth, proofOfIdentity } from '@ropewalk/client/instance-identity';
import { AppError } from '@ropewalk/kit';
import type { AgentOptions } from './options.ts';

const TIMEOUT_MS = 15_000;

/**
 * Returns the agent token that the server issues for this machine's proof of identity. Throws `unauthenticated` if the
 * server rejects the proof, `unavailable` if the metadata service or the server cannot be reached.
 */
export async function tokenByIdentity(
  options: Pick<AgentOptions, 'url' | 'headers' | 'metadataUrl' | 'name'>,
  auth: Exclude<AgentAuth, 'token'>,
): Promise<string> {
  const proof = await proofOfIdentity(auth, options);
  const answer = await fetch(new URL(`/api/v2/workspaceagents/${auth}`, options.url), {
    method: 'POST',
    headers: { ...(await options.headers?.()), 'Content-Type': 'application/json' },
    body: JSON.stringify(proof),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const body = (await answer.json().catch(() => ({}))) as { session_token?: unknown; message?: unknown };
  if (answer.ok && typeof body.session_token === 'string' && body.session_token !== '') return body.session_token;
  const code = answer.status === 401 ? 'unauthenticated' : 'unavailable';
  const words = typeof body.message === 'string' ? `: ${body.message.slice(0, 500)}` : '.';
  throw new AppError(
    code,
    `Could not authenticate this machine: the server answered with status ${answer.status}${words}`,
  );
}
