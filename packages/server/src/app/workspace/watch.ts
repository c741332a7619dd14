import type { Ctx } from '../context/context.ts';
import { findWorkspace } from '../find/workspace.ts';
import type { Source } from '../follow/follow.ts';
import { toWorkspace } from './convert.ts';

/** How often to read a workspace without an event, in ms: some values change by themselves, such as an agent's latency. */
const LOOK_AGAIN_MS = 15_000;

/**
 * A workspace each time it changes. Reading it takes several queries, and thousands of people may watch, so it is read only
 * after an event that may concern it, and now and then.
 */
export function workspaceSource(ctx: Ctx, id: string): Source {
  const { events } = ctx;
  let last = '';
  let jobId = '';
  let templateId = '';
  return {
    permission: (now) => findWorkspace(now, 'read', id, { deleted: true }),
    subscribe(wake) {
      const off = [
        events.on('workspace_changed', (event) => event.workspace_id === id && wake()),
        events.on('job_changed', ({ job_id, logs }) => !logs && job_id === jobId && wake()),
        events.on('job_canceled', ({ job_id }) => job_id === jobId && wake()),
        events.on('object_changed', (object) => object.id === templateId && wake()),
        events.onResync(wake),
      ];
      return () => {
        for (const each of off) each();
      };
    },
    lookAgainMs: LOOK_AGAIN_MS,
    async next() {
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
