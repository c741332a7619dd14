import type { Client } from '@platform/client';
import type { CreateWorkspaceBuildRequest, Workspace, WorkspaceBuild } from '@platform/contract';
import type { Context } from '../framework/context.ts';
import type { BuildFlagValues } from './flags.ts';
import { followBuild } from './job.ts';
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
      reason: (flags.reason || 'cli') as NonNullable<CreateWorkspaceBuildRequest['reason']>,
      ...(flags['provisioner-log-debug'] ? { log_level: 'debug' as const } : {}),
      ...extra,
    },
  });
}

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

/** Starts an existing workspace with parameters from the flags and the previous build. */
export async function startExisting(
  client: Client,
  ctx: Context,
  workspace: Workspace,
  flags: BuildFlagValues & ParameterFlagValues,
  options: { versionId: string; yes: boolean },
): Promise<WorkspaceBuild> {
  const previous = await client.call('GET /workspacebuilds/{workspacebuild}/parameters', {
    params: { workspacebuild: workspace.latest_build.id },
  });
  const values = await resolveParameters(ctx, client, {
    versionId: options.versionId,
    classic: workspace.template_use_classic_parameter_flow,
    ownerId: workspace.owner_id,
    flags,
    previous,
    isNew: false,
    yes: options.yes,
  });
  return startBuild(client, workspace, 'start', flags, {
    template_version_id: options.versionId,
    ...(values.length > 0 ? { rich_parameter_values: values } : {}),
  });
}
