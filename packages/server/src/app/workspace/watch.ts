import type { Ctx } from '../context/context.ts';
import { findWorkspace } from '../find/workspace.ts';
import type { Source } from '../follow/follow.ts';
import { toWorkspace } from './convert.ts';

/** How often to read a workspace without an event, in ms: some values change by themselves, such as an agent's latency. */
const LOOK_ANYWAY_MS = 15_000;

/**
 * A workspace each time it changes. Reading it takes several queries, and thousands of people may watch, so it is read only
 * after an event that may concern it, and now and then.
 */
export function workspaceSource(ctx: Ctx, id: string, { lookAnywayMs = LOOK_ANYWAY_MS } = {}): Source {
  const { events } = ctx;
  let last = '';
  let due = true;
  let looked = 0;
  let jobId = '';
  let templateId = '';
  return {
    permission: (now) => findWorkspace(now, 'read', id, { deleted: true }),
    subscribe(wake) {
      const look = () => {
        due = true;
        wake();
      };
      const off = [
        events.on('workspace_changed', (event) => event.workspace_id === id && look()),
        events.on('job_changed', ({ job_id, logs }) => !logs && job_id === jobId && look()),
        events.on('job_canceled', ({ job_id }) => job_id === jobId && look()),
        events.on('object_changed', (object) => object.id === templateId && look()),
        events.onResync(look),
      ];
      return () => {
        for (const each of off) each();
      };
    },
    async next() {
      const now = performance.now();
      if (!due && now - looked < lookAnywayMs) return { messages: [], more: false, end: false };
      due = false;
      looked = now;
      const workspace = await toWorkspace(ctx, await findWorkspace(ctx, 'read', id, { deleted: true }));
      jobId = workspace.latest_build.job.id;
      templateId = workspace.template_id;
      const text = JSON.stringify(workspace);
      const messages = text === last ? [] : [text];
      last = text;
      return { messages, more: false, end: false };
    },
  };
}
