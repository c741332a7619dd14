import type { Client } from '@ropewalk/client';
import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { note } from '../framework/io.ts';
import { waitForAgent } from './agent.ts';
import { externalAgentsOf, instructionsCommand } from './external-agent.ts';
import { throughOutage } from './outage.ts';
import { findWorkspace, pickAgent, type Target } from './workspace.ts';

export interface ReachOptions {
  /** Starts a stopped workspace. */
  autostart: boolean;
  /** Waits for the startup scripts, too. With `auto`, the template decides. */
  forScripts?: boolean | 'auto';
  /** The reason for a start, as the server records it. */
  reason?: 'ssh_connection' | 'vscode_connection' | 'jetbrains_connection';
  quiet?: boolean;
  /** Interval between checks of the build and the agent, in ms. Default: each has its own. */
  pollMs?: number | undefined;
}

/** Waits for a running workspace and its connected agent. Shows progress on stderr. */
export async function reachAgent(
  ctx: Context,
  client: Client,
  target: Target,
  options: ReachOptions,
): Promise<{ workspace: Workspace; agent: WorkspaceAgent }> {
  const workspace = await runningWorkspace(ctx, client, target.workspace, options);
  const agent = pickAgent(workspace, target.agent);
  const { forScripts = false, quiet = false, pollMs } = options;
  const isExternal = externalAgentsOf(workspace).some(({ id }) => id === agent.id);
  if (isExternal && !quiet && agent.status !== 'connected') {
    const where = `The agent ${agent.name} runs on a machine that the template does not create.`;
    note(ctx.io, `${where} Show the command that starts it with: ${instructionsCommand(target.workspace)}`);
  }
  if (agent.status === 'connected' && agent.lifecycle_state === 'ready') return { workspace, agent };
  const scripts = forScripts === 'auto' ? agent.startup_script_behavior === 'blocking' : forScripts;
  return { workspace, agent: await waitForAgent(ctx, client, agent.id, { forScripts: scripts, quiet, pollMs }) };
}

/** Starts the workspace if it is stopped. @throws AppError if it is stopped and `autostart` is off. */
export async function runningWorkspace(
  ctx: Context,
  client: Client,
  name: string,
  { autostart, reason = 'ssh_connection', pollMs }: Pick<ReachOptions, 'autostart' | 'reason' | 'pollMs'>,
): Promise<Workspace> {
  const workspace = await findWorkspace(client, name);
  const build = workspace.latest_build;
  if (build.status === 'running') return workspace;
  if (build.transition === 'delete') throw new AppError('gone', `The workspace ${workspace.name} is being deleted.`);
  const [{ followBuild }, { startBuild }] = await Promise.all([import('./job.ts'), import('./build.ts')]);
  // stdout belongs to the session
  const shown = { ...ctx, io: { ...ctx.io, stdout: ctx.io.stderr } };
  let buildId = build.id;
  if (build.transition === 'start' && ['pending', 'starting'].includes(build.status)) {
    note(ctx.io, `The workspace ${workspace.name} is starting.`);
  } else {
    if (!autostart) {
      throw new AppError(
        'conflict',
        `The workspace ${workspace.name} is ${build.status}. Start it with: coder start ${name}`,
      );
    }
    if (build.status === 'stopping') await followBuild(shown, client, build.id, pollMs);
    note(ctx.io, `The workspace ${workspace.name} is ${build.status}. Starting it.`);
    const active = workspace.automatic_updates === 'always' || workspace.template_require_active_version;
    const version = active ? workspace.template_active_version_id : build.template_version_id;
    const started = await startBuild(client, workspace, 'start', { reason }, { template_version_id: version });
    buildId = started.id;
  }
  await followBuild(shown, client, buildId, pollMs);
  return throughOutage(() => findWorkspace(client, name), { signal: ctx.signal });
}
