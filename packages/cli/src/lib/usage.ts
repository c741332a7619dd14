import type { Client } from '@platform/client';
import type { PostWorkspaceUsageRequest } from '@platform/contract';

const EVERY_MS = 60_000;

/**
 * Tells the server that the workspace is used, now and each minute in which `used` says so, so that it is not stopped
 * under its user. Gives back how to end that. What fails is tried again a minute later.
 */
export function reportUsage(
  client: Client,
  workspaceId: string,
  body: PostWorkspaceUsageRequest,
  used: () => boolean = () => true,
): () => void {
  const tell = () =>
    void client
      .call('POST /workspaces/{workspace}/usage', { params: { workspace: workspaceId }, body })
      .catch(() => {});
  tell();
  const timer = setInterval(() => {
    if (used()) tell();
  }, EVERY_MS);
  return () => clearInterval(timer);
}
