import type { Ctx } from '../context.ts';
import type { Followed } from '../job/logs.ts';
import { toWorkspace } from './convert.ts';
import { findWorkspace } from './find.ts';

/** A workspace each time it changes. */
export function workspaceChanges(ctx: Ctx, id: string): Followed {
  let last = '';
  return {
    permission: (now) => findWorkspace(now, 'read', id, { deleted: true }),
    subscribe: (wake) => ctx.events.on('workspace_changed', (event) => event.workspace_id === id && wake()),
    async next() {
      const text = JSON.stringify(await toWorkspace(ctx, await findWorkspace(ctx, 'read', id, { deleted: true })));
      const messages = text === last ? [] : [text];
      last = text;
      return { messages, more: false, end: false };
    },
  };
}
