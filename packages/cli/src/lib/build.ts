import { ApiError, type Client } from '@ropewalk/client';
import type { CreateWorkspaceBuildRequest, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import type { BuildFlagValues } from './flags.ts';
import { followBuild } from './job.ts';
import { throughOutage } from './outage.ts';
import { type ParameterFlagValues, resolveParameters } from './parameters.ts';

type Extra = Partial<Omit<CreateWorkspaceBuildRequest, 'transition'>>;

/** Starts a build. To watch it, call followBuild. */
export function startBuild(
  client: Client,
  workspace: Workspace,
  transition: CreateWorkspaceBuildRequest['transition'],
  flags: Partial<BuildFlagValues>,
  extra: Extra = {},
): Promise<WorkspaceBuild> {
  return client.call('POST /workspaces/{workspace}/builds', {
    params: { workspace: workspace.id },
    body: {
      transition,
      ...commonOf(flags),
      ...extra,
    },
  });
}

const commonOf = (flags: Partial<BuildFlagValues>) => ({
  reason: (flags.reason || 'cli') as NonNullable<CreateWorkspaceBuildRequest['reason']>,
  ...(flags['provisioner-log-debug'] ? { log_level: 'debug' as const } : {}),
});

/** Starts a build and shows it until it has ended. @throws AppError when it failed. */
export async function build(
  ctx: Context,
  client: Client,
  workspace: Workspace,
  transition: CreateWorkspaceBuildRequest['transition'],
  flags: Partial<BuildFlagValues> = {},
  extra: Extra = {},
): Promise<WorkspaceBuild> {
  const started = await startBuild(client, workspace, transition, flags, extra);
  await followBuild(ctx, client, started.id);
  return started;
}

/** The version of a start without a chosen one, as the server chooses it. */
export const usualVersion = (workspace: Workspace): string =>
  workspace.automatic_updates === 'always' || workspace.template_require_active_version
    ? workspace.template_active_version_id
    : workspace.latest_build.template_version_id;

interface StartOptions {
  versionId: string;
  /** Use defaults without asking. */
  yes: boolean;
}

/** The version and parameters of a start, from the flags and the previous build. */
async function chooseStart(
  client: Client,
  ctx: Context,
  workspace: Workspace,
  flags: ParameterFlagValues,
  { versionId, yes }: StartOptions,
): Promise<Pick<Extra, 'template_version_id' | 'rich_parameter_values'>> {
  const previous = await client.call('GET /workspacebuilds/{workspacebuild}/parameters', {
    params: { workspacebuild: workspace.latest_build.id },
    // upstream's server ignores it
    query: { earlier: true },
  });
  const values = await resolveParameters(ctx, client, {
    versionId,
    classic: workspace.template_use_classic_parameter_flow,
    ownerId: workspace.owner_id,
    flags,
    previous,
    isNew: false,
    yes,
  });
  return { template_version_id: versionId, ...(values.length > 0 ? { rich_parameter_values: values } : {}) };
}

/** Starts an existing workspace with parameters from the flags and the previous build. */
export async function startExisting(
  client: Client,
  ctx: Context,
  workspace: Workspace,
  flags: BuildFlagValues & ParameterFlagValues,
  options: StartOptions,
): Promise<WorkspaceBuild> {
  return startBuild(client, workspace, 'start', flags, await chooseStart(client, ctx, workspace, flags, options));
}

/**
 * Stops a workspace and starts it again, and shows both builds until they have ended. The server begins the start, so that
 * the workspace starts even if this command ends after it has begun the stop. With a server that cannot do this, the
 * command begins both. @throws AppError when a build failed or the start could not begin.
 */
export async function restart(
  ctx: Context,
  client: Client,
  workspace: Workspace,
  flags: BuildFlagValues & ParameterFlagValues,
  options: StartOptions,
): Promise<void> {
  const choice = await chooseStart(client, ctx, workspace, flags, options);
  const first = await orderRestart(client, workspace, flags, choice);
  if (!first) {
    if (workspace.latest_build.status !== 'stopped') await build(ctx, client, workspace, 'stop', flags);
    await build(ctx, client, workspace, 'start', flags, choice);
    return;
  }
  await followBuild(ctx, client, first.id);
  if (first.transition === 'stop') await followBuild(ctx, client, await startAfter(ctx, client, first));
}

/** Orders a restart. Undefined if the server does not have the route. */
async function orderRestart(
  client: Client,
  workspace: Workspace,
  flags: BuildFlagValues,
  { template_version_id: versionId, ...choice }: Extra,
): Promise<WorkspaceBuild | undefined> {
  try {
    return await client.call('POST /workspaces/{workspace}/restart', {
      params: { workspace: workspace.id },
      body: {
        ...choice,
        ...commonOf(flags),
        // the server chooses the usual version itself, even if that changes during the stop
        ...(versionId && versionId !== usualVersion(workspace) ? { template_version_id: versionId } : {}),
      },
    });
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return undefined;
    throw err;
  }
}

const RESTART_POLL_MS = 200;

/** Waits for the start that follows the stop of a restart, and returns its id. */
async function startAfter(ctx: Context, client: Client, stop: WorkspaceBuild): Promise<string> {
  for (let wasDropped = false; ; ) {
    const { latest_build: latest, automatic_build_error: error } = await lookAt(ctx, client, stop);
    if (latest.id !== stop.id && latest.transition === 'start') return latest.id;
    const isDropped = latest.id !== stop.id || !latest.restart_pending;
    // asked twice: the server may have read the latest build just before the start began, and the restart just after
    if (isDropped && wasDropped) {
      const text = 'The workspace was stopped, but not started again: another build of it began.';
      throw new AppError('conflict', error?.message ?? text);
    }
    wasDropped = isDropped;
    if (isDropped) continue;
    if (ctx.signal.aborted) throw new AppError('canceled', 'Canceled. The server still starts the workspace.');
    await new Promise<void>((resolve) => setTimeout(resolve, RESTART_POLL_MS));
  }
}

const lookAt = ({ signal }: Context, client: Client, { workspace_id: workspace }: WorkspaceBuild) =>
  throughOutage(() => client.call('GET /workspaces/{workspace}', { params: { workspace } }), { signal });
