import { posix, win32 } from 'node:path';
import type { Client } from '@ropewalk/client';
import type { WorkspaceAgent } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { reachAgent } from '../../lib/running.ts';
import { splitTarget } from '../../lib/workspace.ts';
import { insideWorkspace, mayOpen, openAddress } from './browser.ts';

const flags = {
  'generate-token': {
    type: 'bool',
    env: 'CODER_OPEN_VSCODE_GENERATE_TOKEN',
    description: 'Include a new session token in the printed link, for an editor that is not logged in.',
  },
} as const;

/** A directory in the notation of the agent's system, relative to the agent's own directory. */
function inWorkspace(agent: WorkspaceAgent, wanted: string): string {
  const home = agent.expanded_directory ?? '';
  const path = agent.operating_system === 'windows' ? win32 : posix;
  if (wanted === '') return home;
  if (path.isAbsolute(wanted)) return path.normalize(wanted);
  if (wanted.startsWith('~')) return wanted;
  if (home === '') {
    throw new AppError(
      'invalid',
      `The agent has no default directory. Use an absolute path instead of ${JSON.stringify(wanted)}.`,
    );
  }
  return path.join(home, wanted);
}

async function withToken(client: Client, use: (token: string) => Promise<boolean>): Promise<void> {
  const { key } = await client.call('POST /users/{user}/keys', { params: { user: 'me' } });
  if (await use(key)) return;
  // unused: revoke it
  const keyid = key.split('-')[0]!;
  await client.call('DELETE /users/{user}/keys/{keyid}', { params: { user: 'me', keyid } });
}

/** Opens a workspace in VS Code on this machine, or prints the link if that fails. */
export default command(
  { args: { workspace: {}, directory: { usage: 'directory in workspace', optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const target = splitTarget(args.workspace);
    const inside = insideWorkspace(ctx) && ctx.env['CODER_WORKSPACE_NAME'] === target.workspace.split('/').at(-1);
    const { workspace, agent } = await reachAgent(ctx, client, target, {
      autostart: true,
      reason: 'vscode_connection',
    });
    const folder = directory(ctx, agent, args.directory ?? '', inside);
    const link = (token: string) =>
      `vscode://coder.coder-remote/open?${new URLSearchParams({
        agent: agent.name,
        ...(folder ? { folder } : {}),
        owner: workspace.owner_name,
        ...(token ? { token } : {}),
        url: client.url,
        workspace: workspace.name,
      })}`;
    if (mayOpen(ctx)) {
      let opened = false;
      await withToken(client, async (token) => {
        opened = await openAddress(ctx, link(token));
        return opened;
      });
      if (opened) {
        note(ctx.io, `Opened ${workspace.name} in Visual Studio Code.`);
        return 0;
      }
      note(ctx.io, 'Could not open the link. Open it on a machine with Visual Studio Code:');
    }
    if (given['generate-token']) {
      await withToken(client, async (token) => {
        print(ctx.io, link(token));
        return true;
      });
    } else print(ctx.io, link(''));
    return 0;
  },
);

/** Inside the workspace, a relative directory is relative to the current one. */
function directory(ctx: Context, agent: WorkspaceAgent, wanted: string, inside: boolean): string {
  if (!inside || wanted === '' || posix.isAbsolute(wanted)) return inWorkspace(agent, wanted);
  return posix.join(ctx.env['PWD'] ?? process.cwd(), wanted);
}
