import type { Client } from '@ropewalk/client';
import type { PostWorkspaceUsageRequest } from '@ropewalk/contract';

const EVERY_MS = 60_000;

/**
 * Reports activity to the server, now and each minute in which `used` returns true, so that it does not stop the
 * workspace. Ignores failures until the next report. Returns a function that stops.
 */
export function reportUsage(
  client: Client,
  workspaceId: string,
  body: PostWorkspaceUsageRequest,
  used: () => boolean = () => true,
): () => void {
  const report = () =>
    void client
      .call('POST /workspaces/{workspace}/usage', { params: { workspace: workspaceId }, body })
      .catch(() => {});
  report();
  const timer = setInterval(() => {
    if (used()) report();
  }, EVERY_MS);
  return () => clearInterval(timer);
}
