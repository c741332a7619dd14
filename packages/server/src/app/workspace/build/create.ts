import type { CreateWorkspaceBuildRequest, WorkspaceBuild } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorize, may } from '../../../authz/authorize.ts';
import type { Tx } from '../../../db/connect.ts';
import { type VersionRules, versionRules } from '../../../db/queries/build-sources.ts';
import {
  buildById,
  buildParameters,
  keptParameters,
  lastGoodParameters,
  latestBuild,
} from '../../../db/queries/builds.ts';
import { hasNewPrompt } from '../../../db/queries/tasks.ts';
import { lockWorkspace } from '../../../db/queries/workspaces.ts';
import type { BuildRow, JobStatus, Transition, WorkspaceRow } from '../../../db/rows.ts';
import type { Ctx } from '../../context/context.ts';
import type { NameValue } from '../../evaluate/parameter-values.ts';
import { templateObject } from '../../find/template.ts';
import { deletedWorkspace, findWorkspace } from '../../find/workspace.ts';
import { pushedState, type TerraformState } from '../../job/state.ts';
import { beginInTurn } from '../../lists/turns.ts';
import { withAnswers } from '../../parameters/answers.ts';
import { isPrompt } from '../../parameters/values.ts';
import { toBuildAlone } from './convert.ts';
import { alreadyActive, insertBuild, orderBuild } from './insert.ts';
import { prepareBuild } from './prepare.ts';

const ACTIVE: ReadonlySet<JobStatus> = new Set(['pending', 'running', 'canceling']);

/** Whether a build waits or runs. */
export const isActive = (build: Pick<BuildRow, 'job_status'>): boolean => ACTIVE.has(build.job_status);

/**
 * Locks a workspace that was read before the transaction.
 * @throws AppError if a person claimed it meanwhile, or if it was deleted
 */
export async function lockUnchanged(tx: Tx, workspace: Pick<WorkspaceRow, 'id' | 'owner_id' | 'name'>): Promise<void> {
  const now = await lockWorkspace(tx, workspace);
  if (now === 'claimed') {
    throw new AppError('conflict', 'Someone claimed this workspace just now. Reload it and try again.');
  }
  if (now === 'deleted') throw deletedWorkspace(workspace);
}

/** Starts, stops or deletes a workspace. */
export async function createBuild(
  ctx: Ctx,
  workspaceId: string,
  input: CreateWorkspaceBuildRequest,
): Promise<WorkspaceBuild> {
  if (input.dry_run) throw dryRunError();
  const workspace = await findWorkspace(ctx, 'read', workspaceId);
  const order = orderBuild(ctx, input.transition, workspace);
  const row = await withAnswers(ctx, (answers) =>
    beginInTurn(ctx, async (tx) => {
      await lockUnchanged(tx, workspace);
      const last = await latestBuild(tx, workspace.id);
      if (input.orphan && input.transition !== 'delete') {
        throw new AppError('invalid', 'Orphan is only permitted when deleting a workspace.');
      }
      const state = input.state === undefined || input.state.length === 0 ? undefined : givenState(input.state);
      if (input.orphan && state)
        throw new AppError('invalid', 'ProvisionerState cannot be set alongside Orphan since state intent is unclear.');
      const template = await versionRules(tx, workspace.template_id);
      if (state || input.orphan) authorize(ctx, 'update', templateObject(template));
      const logLevel = input.log_level ?? '';
      if (logLevel) requireDebug(ctx);
      const prepared = await prepareBuild(ctx, tx, answers, template, {
        transition: input.transition,
        versionId: versionFor(ctx, template, { workspace, last, ...input }),
        ownerId: workspace.owner_id,
        presetId: input.template_version_preset_id,
        given: await withoutStalePrompt(tx, last, input.rich_parameter_values ?? []),
        last: last && (await valuesBefore(tx, last, input.transition)),
      });
      if (last && isActive(last)) {
        const { version, parameters } = prepared;
        if (!state && !input.orphan && (await isSameBuild(tx, last, input.transition, version.id, parameters)))
          return last;
        throw alreadyActive();
      }
      const id = await insertBuild(ctx, tx, answers, order, {
        ...prepared,
        reason: input.reason ?? 'initiator',
        logLevel,
        state,
        orphan: input.orphan,
        last,
      });
      return (await buildById(tx, id))!;
    }),
  );
  return toBuildAlone(ctx, ctx.sql, row);
}

/**
 * The version of a build that a person makes. Another version than that of the last build needs the permission to use the
 * template: people who have lost it keep their workspaces as they are.
 * @throws AppError `forbidden` if they choose another version, or if the template requires one
 */
export function versionFor(
  ctx: Ctx,
  template: VersionRules,
  choice: {
    workspace: Parameters<typeof usualVersion>[0];
    last: Pick<BuildRow, 'template_version_id'> | undefined;
    transition: Transition;
    template_version_id?: string | undefined;
  },
): string {
  const { workspace, last, transition, template_version_id: chosen } = choice;
  const version = chosen ?? usualVersion(workspace, transition, last);
  const current = last?.template_version_id ?? version;
  if (version === current || may(ctx.actor, 'use', templateObject(template))) return version;
  if (chosen === undefined && !template.require_active_version) return current;
  throw new AppError(
    'forbidden',
    chosen === undefined
      ? "The template requires its active version, and you may not use the template. Ask the template's administrators for the permission to use it."
      : "You may not use the template of this workspace, so the workspace can only have its current version. Ask the template's administrators for the permission to use it.",
  );
}

/** The version of a build without a chosen one: a start takes the active version if the workspace is updated by itself. */
export function usualVersion(
  workspace: Pick<WorkspaceRow, 'automatic_updates' | 'require_active_version' | 'template_active_version_id'>,
  transition: Transition,
  last: Pick<BuildRow, 'template_version_id'> | undefined,
): string {
  const updates = workspace.automatic_updates === 'always' || workspace.require_active_version;
  if (!last || (transition === 'start' && updates)) return workspace.template_active_version_id;
  return last.template_version_id;
}

/**
 * Omits the prompt if a person changed that of the stopped task (`changeTaskPrompt`): clients start it with the values
 * that they read before the change.
 */
async function withoutStalePrompt(tx: Tx, last: BuildRow | undefined, given: NameValue[]): Promise<NameValue[]> {
  if (last?.transition !== 'stop' || !given.some(isPrompt) || !(await hasNewPrompt(tx, last))) return given;
  return given.filter((value) => !isPrompt(value));
}

/**
 * The parameters of the last build. A stop or delete after a failed build takes those of the last successful build, if
 * there is one: the newer values may be why the build failed, and the running workspace uses the older ones. A start also
 * gets the earlier values of parameters that the last build did not have: one that a condition hid keeps its value.
 */
export async function valuesBefore(tx: Tx, last: BuildRow, transition: Transition): Promise<NameValue[]> {
  if (transition === 'start') return keptParameters(tx, last);
  const values = await buildParameters(tx, last.id);
  if (last.job_status === 'succeeded') return values;
  const good = await lastGoodParameters(tx, last.workspace_id);
  return values.map(({ name, value }) => ({ name, value: good.find((one) => one.name === name)?.value ?? value }));
}

/** Whether the running build is the requested one. The caller then joins it. */
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

/**
 * Parses a pushed state. Upstream's clients send base64, as Go marshals bytes. Upstream's document names a list of
 * numbers.
 */
export function givenState(state: string | number[]): TerraformState {
  return pushedState(typeof state === 'string' ? Buffer.from(state, 'base64') : Buffer.from(state));
}

export function requireDebug(ctx: Ctx): void {
  if (!may(ctx.actor, 'read', { type: 'deployment_config' }) || !ctx.config.enableTerraformDebugMode) {
    throw new AppError('invalid', 'Terraform debug mode is disabled in the deployment configuration.');
  }
}

function dryRunError(): AppError {
  return new AppError('invalid', 'A workspace build cannot be a dry run.', {
    validations: [
      {
        field: 'dry_run',
        detail:
          'must be false. Use POST /api/v2/templateversions/{templateversion}/dry-run for a dry run of a template version',
      },
    ],
  });
}
