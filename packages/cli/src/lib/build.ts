import type { Client } from '@platform/client';
import type { CreateWorkspaceBuildRequest, Workspace, WorkspaceBuild } from '@platform/contract';
import type { Context } from '../framework/context.ts';
import type { BuildFlagValues } from './flags.ts';
import { followBuild } from './job.ts';
import { type ParameterFlagValues, resolveParameters } from './parameters.ts';

type Extra = Partial<Omit<CreateWorkspaceBuildRequest, 'transition'>>;

/** Starts a build; see followBuild to watch it. */
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

/** Builds and shows it until it has ended. @throws AppError when it failed. */
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

/** A start of a workspace that exists, with its parameters from flags and the build before. */
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
