import { errorText } from '@platform/kit';
import type { Services } from '../context.ts';

/** Notes that a workspace is in use: once a grant, so about once a minute. Nobody waits for it. */
export function noteWorkspaceUse({ sql, log }: Services, workspaceId: string): void {
  sql`UPDATE workspaces SET last_used_at = now() WHERE id = ${workspaceId}
    AND (last_used_at IS NULL OR last_used_at < now() - interval '30 seconds')`.catch((err) =>
    log.debug('could not note the use of a workspace', { err: errorText(err) }),
  );
}
