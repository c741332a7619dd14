import type { WorkspaceBuild } from '@platform/contract';
import { call } from '../../api/client.ts';

/** How long to wait before a lost connection is opened again. */
const AGAIN_MS = 1_000;

/**
 * Waits until a build has ended, and returns it. The server closes a build's log once the result is final, so that
 * nothing has to ask again and again.
 */
export async function buildEnd(id: string): Promise<WorkspaceBuild> {
  for (;;) {
    const build = await call('GET /workspacebuilds/{workspacebuild}', { params: { workspacebuild: id } });
    if (build.job.completed_at) return build;
    await logEnd(id);
  }
}

function logEnd(id: string): Promise<void> {
  return new Promise((resolve) => {
    const address = new URL(`/api/v2/workspacebuilds/${id}/logs?follow=true`, location.href);
    address.protocol = address.protocol.replace('http', 'ws');
    const socket = new WebSocket(address);
    socket.onclose = ({ code }) => setTimeout(resolve, code === 1000 ? 0 : AGAIN_MS);
  });
}
