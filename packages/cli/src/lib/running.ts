import type { Client } from '@platform/client';
import type { Workspace, WorkspaceAgent } from '@platform/contract';
import { AppError } from '@platform/kit/errors';
import type { Context } from '../framework/context.ts';
import { note } from '../framework/io.ts';
import { waitForAgent } from './agent.ts';
import { findWorkspace, pickAgent, type Target } from './workspace.ts';

export interface ReachOptions {
  /** Starts a stopped workspace. */
  autostart: boolean;
  /** Waits for its startup scripts, too; `auto`: where the template says so. */
  forScripts?: boolean | 'auto';
  /** Told to the server as why the workspace is started. */
  reason?: 'ssh_connection' | 'vscode_connection' | 'jetbrains_connection';
  quiet?: boolean;
  /** How often it is looked whether a build has begun or the agent is there. Default: each has its own. */
  pollMs?: number | undefined;
}

/** A connected agent of a running workspace, for which both are waited. Progress goes to stderr. */
export async function reachAgent(
  ctx: Context,
  client: Client,
  target: Target,
  options: ReachOptions,
): Promise<{ workspace: Workspace; agent: WorkspaceAgent }> {
  const workspace = await runningWorkspace(ctx, client, target.workspace, options);
  const agent = pickAgent(workspace, target.agent);
  const { forScripts = false, quiet = false, pollMs } = options;
  if (agent.status === 'connected' && agent.lifecycle_state === 'ready') return { workspace, agent };
  const scripts = forScripts === 'auto' ? agent.startup_script_behavior === 'blocking' : forScripts;
  return { workspace, agent: await waitForAgent(ctx, client, agent.id, { forScripts: scripts, quiet, pollMs }) };
}

/** The workspace, started if need be. Throws AppError where it is not running and may not be started. */
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
  // stdout belongs to what is carried
  const shown = { ...ctx, io: { ...ctx.io, stdout: ctx.io.stderr } };
  let buildId = build.id;
  if (build.transition === 'start' && ['pending', 'starting'].includes(build.status)) {
    note(ctx.io, `The workspace ${workspace.name} is starting.`);
  } else {
    if (!autostart) {
      throw new AppError(
        'conflict',
        `The workspace ${workspace.name} is ${build.status}: start it with coder start ${name}`,
      );
    }
    if (build.status === 'stopping') await followBuild(shown, client, build.id, pollMs);
    note(ctx.io, `The workspace ${workspace.name} is ${build.status}; starting it.`);
    const active = workspace.automatic_updates === 'always' || workspace.template_require_active_version;
    const version = active ? workspace.template_active_version_id : build.template_version_id;
    const started = await startBuild(client, workspace, 'start', { reason }, { template_version_id: version });
    buildId = started.id;
  }
  await followBuild(shown, client, buildId, pollMs);
  return findWorkspace(client, name);
}
