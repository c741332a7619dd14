import type { Ctx } from '../context/context.ts';
import { findWorkspace } from '../find/workspace.ts';
import type { Source } from '../follow/follow.ts';
import { toWorkspace } from './convert.ts';

/** A workspace each time it changes. */
export function workspaceSource(ctx: Ctx, id: string): Source {
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
