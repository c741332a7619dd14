import { AppError } from '@ropewalk/kit';
import { uuidBytes } from '@ropewalk/wire/uuid';

const TIMEOUT_MS = 10_000;

export interface LogSourceServer {
  url: string;
  token: string;
  headers: Record<string, string>;
}

/**
 * Creates a source of the agent's log, for a dev container that no template declares.
 * @throws AppError `unavailable` if the server does not accept it
 */
export async function createLogSource({ url, token, headers }: LogSourceServer, name: string): Promise<Uint8Array> {
  const id = crypto.randomUUID();
  const answer = await fetch(new URL('/api/v2/workspaceagents/me/log-source', url), {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', cookie: `coder_session_token=${token}` },
    body: JSON.stringify({ id, display_name: name, icon: '/emojis/1f4e6.png' }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await answer.body?.cancel();
  if (!answer.ok) throw new AppError('unavailable', `The server rejected a log source with status ${answer.status}.`);
  return uuidBytes(id);
}
