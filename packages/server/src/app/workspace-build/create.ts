import type { CreateWorkspaceBuildRequest, WorkspaceBuild } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize, may } from '../../authz/authorize.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  type BuildRow,
  buildById,
  buildParameters,
  lastGoodParameters,
  latestBuild,
  type Transition,
} from '../../db/queries/builds.ts';
import { countMatching } from '../../db/queries/daemons.ts';
import { insertJob, type JobStatus } from '../../db/queries/jobs.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { announce } from '../job/complete.ts';
import { announcePending } from '../job/post.ts';
import { firstState, pushedState } from '../job/state.ts';
import { mutateTags, type Tags } from '../job/tags.ts';
import { buildTags } from '../job/workspace-tags.ts';
import { checkExternalAuth } from '../template/external-auth.ts';
import { type Answers, withAnswers } from '../work/answers.ts';
import { findWorkspace, type WorkspaceRow, workspaceObject } from '../workspace/find.ts';
import { toBuildAlone } from './convert.ts';
import { type NameValue, resolveParameters, versionParameters } from './parameters.ts';

const ACTION = { start: 'start', stop: 'stop', delete: 'delete' } as const;
/** Reasons of builds that nobody waits for. */
const UNATTENDED: ReadonlySet<string> = new Set(['autostart', 'autostop', 'dormancy']);
const ACTIVE: ReadonlySet<JobStatus> = new Set(['pending', 'running', 'canceling']);

export interface NewBuild {
  transition: Transition;
  versionId: string;
  parameters: NameValue[];
  presetId?: string | undefined;
  reason: string;
  logLevel: string;
  /** Absent: that of the build before. */
  state?: Buffer | undefined;
  /** A deletion that leaves alone what the workspace consists of. */
  orphan?: boolean | undefined;
  last?: BuildRow | undefined;
}

/** Starts, stops or deletes a workspace. */
export async function createBuild(
  ctx: Ctx,
  workspaceId: string,
  input: CreateWorkspaceBuildRequest,
): Promise<WorkspaceBuild> {
  const workspace = await findWorkspace(ctx, workspaceId);
  authorize(ctx, ACTION[input.transition], workspaceObject(workspace));
  const row = await withAnswers(ctx, (answers) =>
    ctx.sql.begin(async (tx) => {
      await tx`SELECT 1 FROM workspaces WHERE id = ${workspace.id} FOR UPDATE`;
      const last = await latestBuild(tx, workspace.id);
      if (input.orphan && input.transition !== 'delete') {
        throw new AppError('invalid', 'Orphan is only permitted when deleting a workspace.');
      }
      const state = input.state === undefined || input.state.length === 0 ? undefined : stateBytes(input.state);
      if (state) pushedState(state);
      if (input.orphan && state)
        throw new AppError('invalid', 'ProvisionerState cannot be set alongside Orphan since state intent is unclear.');
      if (state || input.orphan)
        authorize(ctx, 'update', { type: 'template', organizationId: workspace.organization_id });
      const logLevel = input.log_level ?? '';
      if (logLevel) requireDebug(ctx);
      const versionId = await chooseVersion(ctx, tx, workspace, input, last);
      const preset = await presetOf(tx, versionId, input.template_version_preset_id);
      const ends = input.transition !== 'start';
      const before = last ? await buildParameters(tx, last.id) : undefined;
      if (last && before && ends && last.job_status !== 'succeeded') {
        // what a build failed with may be why it failed: what runs is ended with what it runs with
        const running = await lastGoodParameters(tx, workspace.id);
        for (const parameter of before)
          parameter.value = running.find(({ name }) => name === parameter.name)?.value ?? parameter.value;
      }
      const parameters = resolveParameters(
        answers,
        await versionParameters(tx, versionId),
        input.rich_parameter_values ?? [],
        preset.values,
        before,
        { trustLast: ends },
      );
      if (last && ACTIVE.has(last.job_status)) {
        if (!state && !input.orphan && (await isSameBuild(tx, last, input.transition, versionId, parameters)))
          return last;
        throw new AppError('conflict', 'A workspace build is already active.');
      }
      return insertBuild(ctx, tx, answers, workspace, {
        transition: input.transition,
        versionId,
        parameters,
        presetId: preset.id,
        reason: input.reason ?? 'initiator',
        logLevel,
        state,
        orphan: input.orphan,
        last,
      });
    }),
  );
  return toBuildAlone(ctx, ctx.sql, row);
}

/** Whether the build under way is the one that is asked for: the caller then joins it. */
async function isSameBuild(
  tx: Tx,
  last: BuildRow,
  transition: Transition,
  versionId: string,
  parameters: NameValue[],
): Promise<boolean> {
  if (last.transition !== transition || last.template_version_id !== versionId || last.job_status === 'canceling')
    return false;
  const text = (values: NameValue[]) => JSON.stringify(values.map(({ name, value }) => [name, value]).sort());
  return text(await buildParameters(tx, last.id)) === text(parameters);
}

/** Published clients send base64, as Go marshals bytes; the published document says a list of numbers. */
function stateBytes(state: string | number[]): Buffer {
  return typeof state === 'string' ? Buffer.from(state, 'base64') : Buffer.from(state);
}

function requireDebug(ctx: Ctx): void {
  if (!may(ctx.actor, 'read', { type: 'deployment_config' }) || !ctx.config.enableTerraformDebugMode) {
    throw new AppError('invalid', 'Terraform debug mode is disabled in the deployment configuration.');
  }
}

async function chooseVersion(
  ctx: Ctx,
  tx: Tx,
  workspace: WorkspaceRow,
  input: CreateWorkspaceBuildRequest,
  last: BuildRow | undefined,
): Promise<string> {
  const asked = input.template_version_id;
  const [template] = await tx<{ active_version_id: string; require_active_version: boolean }[]>`
    SELECT active_version_id, require_active_version FROM templates WHERE id = ${workspace.template_id}`;
  const versionId = asked ?? last?.template_version_id ?? template!.active_version_id;
  if (
    input.transition === 'start' &&
    template!.require_active_version &&
    versionId !== template!.active_version_id &&
    !may(ctx.actor, 'update', { type: 'template', organizationId: workspace.organization_id })
  ) {
    throw new AppError('forbidden', 'Template requires using the active version.');
  }
  await checkVersion(tx, versionId, workspace.template_id);
  return versionId;
}

/** Refuses versions of another template and those whose import is not done. */
export async function checkVersion(tx: Tx, versionId: string, templateId: string): Promise<void> {
  const [version] = await tx<
    { template_id: string | null; job_status: JobStatus; error: string | null; archived: boolean }[]
  >`
    SELECT tv.template_id, j.job_status, j.error, tv.archived FROM template_versions tv
    JOIN provisioner_jobs j ON j.id = tv.job_id WHERE tv.id = ${versionId}`;
  if (!version) {
    const detail = 'template version not found';
    throw new AppError('invalid', 'Template version not found.', {
      validations: [{ field: 'template_version_id', detail }],
    });
  }
  if (version.template_id !== templateId)
    throw new AppError('invalid', 'The template version is not of the template of this workspace.');
  switch (version.job_status) {
    case 'pending':
    case 'running':
    case 'canceling':
      throw new AppError('not_acceptable', 'The provided template version is still importing: wait for it.');
    case 'failed':
      throw new AppError('invalid', 'The provided template version has failed to import.', {
        detail: version.error ?? '',
      });
    case 'canceled':
      throw new AppError('invalid', 'The import of the provided template version was canceled.');
    case 'succeeded':
  }
}

async function presetOf(
  tx: Tx,
  versionId: string,
  presetId: string | undefined,
): Promise<{ id?: string; values: Record<string, string> }> {
  if (!presetId) return { values: {} };
  const [preset] = await tx<{ parameters: Record<string, string> }[]>`
    SELECT parameters FROM template_version_presets WHERE id = ${presetId} AND template_version_id = ${versionId}`;
  if (!preset) throw new AppError('invalid', 'The preset is not one of this template version.');
  return { id: presetId, values: preset.parameters };
}

/** The tags of a build's job. */
/** What a build must know of its workspace. */
type BuiltWorkspace = Pick<WorkspaceRow, 'id' | 'name' | 'owner_id' | 'organization_id'>;

async function tagsOf(tx: Tx, answers: Answers, workspace: BuiltWorkspace, build: NewBuild): Promise<Tags> {
  const { versionId, parameters, transition } = build;
  try {
    const { id, name } = workspace;
    return await buildTags(tx, answers, {
      versionId,
      ownerId: workspace.owner_id,
      parameters,
      workspace: { id, name, transition },
    });
  } catch (err) {
    if (!build.orphan || !(err instanceof AppError)) throw err;
    // whoever gives up what a workspace consists of gets rid of it also when its template can no longer be read
    const [job] = await tx<
      { tags: Tags }[]
    >`SELECT tags FROM provisioner_jobs WHERE id = ${build.last?.job_id ?? null}`;
    return job?.tags ?? mutateTags(workspace.owner_id);
  }
}

/** Writes a build with its job and wakes a daemon. The caller holds the workspace's row. */
export async function insertBuild(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  workspace: BuiltWorkspace,
  build: NewBuild,
): Promise<BuildRow> {
  if (build.transition === 'start') await checkExternalAuth(tx, build.versionId);
  const buildId = crypto.randomUUID();
  const jobId = crypto.randomUUID();
  const initiatorId = ctx.actor.kind === 'user' ? ctx.actor.id : workspace.owner_id;
  const [version] = await tx<{ file_id: string }[]>`
    SELECT j.file_id FROM template_versions tv JOIN provisioner_jobs j ON j.id = tv.job_id WHERE tv.id = ${build.versionId}`;
  const tags = await tagsOf(tx, answers, workspace, build);
  const job = await insertJob(tx, {
    id: jobId,
    organization_id: workspace.organization_id,
    initiator_id: initiatorId,
    type: 'workspace_build',
    file_id: version!.file_id,
    input: {
      workspace_build_id: buildId,
      ...(build.logLevel ? { log_level: build.logLevel } : {}),
      ...(build.orphan ? { orphan: true } : {}),
    },
    tags,
    background: UNATTENDED.has(build.reason),
  });
  try {
    await tx`INSERT INTO workspace_builds (id, workspace_id, template_version_id, template_version_preset_id, build_number,
        transition, initiator_id, job_id, reason, provisioner_state, state_serial, state_lineage)
      SELECT ${buildId}, ${workspace.id}, ${build.versionId}, ${build.presetId ?? null}, ${(build.last?.build_number ?? 0) + 1},
        ${build.transition}, ${initiatorId}, ${jobId}, ${build.reason},
        ${firstState(tx, build.state)}
      FROM (SELECT 1) one LEFT JOIN workspace_builds l ON l.id = ${build.last?.id ?? null}`;
  } catch (err) {
    if (isPgError(err, UNIQUE_VIOLATION)) throw new AppError('conflict', 'A workspace build is already active.');
    throw err;
  }
  if (build.parameters.length > 0) {
    await tx`INSERT INTO workspace_build_parameters (workspace_build_id, name, value)
      SELECT ${buildId}::uuid, p.* FROM unnest(${build.parameters.map((p) => p.name)}::text[], ${build.parameters.map((p) => p.value)}::text[]) AS p`;
  }
  await audit(ctx, tx, {
    resourceType: 'workspace_build',
    resourceId: buildId,
    target: workspace.name,
    action: build.transition,
    organizationId: workspace.organization_id,
    ...(build.orphan ? { fields: { orphan: true } } : build.state ? { fields: stateFields(build.state) } : {}),
  });
  if (
    build.transition === 'delete' &&
    (await countMatching(tx, workspace.organization_id, tags)).available === 0 &&
    (build.orphan || (build.state === undefined && (await nothingWasBegun(tx, workspace.id, buildId))))
  ) {
    // nothing is there to destroy and nobody to say so
    const [done] =
      await tx`UPDATE provisioner_jobs SET started_at = now(), completed_at = now(), updated_at = now() WHERE id = ${jobId} RETURNING *`;
    await tx`UPDATE workspaces SET deleted = true, updated_at = now() WHERE id = ${workspace.id}`;
    await announce(ctx, tx, done as typeof job);
  } else {
    await announcePending(ctx, tx, job);
    await ctx.events.publish(tx, 'workspace_changed', { workspace_id: workspace.id, owner_id: workspace.owner_id });
  }
  return (await buildById(tx, buildId))!;
}

/** What the audit log says of a build that does not begin with the state of the one before. */
function stateFields(given: Buffer): Record<string, unknown> {
  const { serial, lineage } = pushedState(given);
  return { pushed_state: { serial, lineage, bytes: given.length } };
}

/** Whether no build of a workspace but this one ever reached a daemon, so that there is nothing that it made. */
async function nothingWasBegun(tx: Tx, workspaceId: string, butBuildId: string): Promise<boolean> {
  const begun = await tx`SELECT 1 FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE b.workspace_id = ${workspaceId} AND b.id <> ${butBuildId}
      AND (j.acquire_epoch > 0 OR j.started_at IS NOT NULL OR coalesce(length(b.provisioner_state), 0) > 0) LIMIT 1`;
  return begun.length === 0;
}
