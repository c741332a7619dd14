/**
 * Restarts a workspace: a stop, and a start in the name of the same person once the stop has succeeded. The wanted start
 * is stored with the stop build, in one transaction. A background task makes it (`startAgain`), on any server. The
 * transaction that adds the start build deletes the wanted start, under the lock of the workspace's row. So the start is
 * made once, and a server that dies in between loses nothing. A stop that fails or is canceled drops the wanted start,
 * and so does any newer build.
 */

import type {
  CreateWorkspaceBuildOnSuccessRequest,
  CreateWorkspaceBuildRequest,
  RestartWorkspaceRequest,
  WorkspaceBuild,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { allow } from '../../../authz/authorize.ts';
import { systemTask } from '../../../authz/proofs.ts';
import { isTransient, type Tx } from '../../../db/connect.ts';
import { versionRules } from '../../../db/queries/build-sources.ts';
import { buildById, latestBuild } from '../../../db/queries/builds.ts';
import {
  type DueRestart,
  insertRestart,
  restartOf,
  type StartChoice,
  storeFailedRestart,
  takeRestart,
} from '../../../db/queries/restarts.ts';
import { userById } from '../../../db/queries/users.ts';
import { workspaceById } from '../../../db/queries/workspaces.ts';
import type { BuildRow, WorkspaceRow } from '../../../db/rows.ts';
import type { Ctx } from '../../context/context.ts';
import { actorOf, WHOLE_PERSON } from '../../context/session.ts';
import type { NameValue } from '../../evaluate/parameter-values.ts';
import { findWorkspace, workspaceObject } from '../../find/workspace.ts';
import { beginInTurn } from '../../lists/turns.ts';
import { notifyAttemptFailed } from '../../notification/schedules.ts';
import { type Answers, withAnswers } from '../../parameters/answers.ts';
import { attemptError } from './attempt.ts';
import { toBuildAlone } from './convert.ts';
import { createBuild, isActive, lockUnchanged, requireDebug, valuesBefore, versionFor } from './create.ts';
import { alreadyActive, checkBuild, initiatorOf, insertBuild, orderBuild } from './insert.ts';
import { type PreparedBuild, prepareBuild } from './prepare.ts';

/**
 * Stops a workspace and stores that it starts again. Checks the start as well, so that a workspace that cannot start is
 * not stopped. A stopped workspace starts immediately. The same request while its stop is active joins it.
 * @returns the stop build, or the start build of a stopped workspace
 */
export const restartWorkspace = (
  ctx: Ctx,
  workspaceId: string,
  input: RestartWorkspaceRequest,
): Promise<WorkspaceBuild> => restart(ctx, workspaceId, { start: () => choiceOf(input), reason: input.reason });

/**
 * Makes the build that a person asks for, or a restart if another build is to follow it. As upstream, the start of a
 * restart then has the template's active version unless the request names one, and a stopped workspace stops first.
 * @throws AppError `invalid` if the builds cannot follow each other
 */
export async function requestBuild(
  ctx: Ctx,
  workspaceId: string,
  input: CreateWorkspaceBuildRequest,
): Promise<WorkspaceBuild> {
  const { on_success: next } = input;
  if (!next) return createBuild(ctx, workspaceId, input);
  checkFollowing(input, next);
  const start = (workspace: WorkspaceRow) =>
    choiceOf({ template_version_id: workspace.template_active_version_id, ...next, log_level: input.log_level });
  return restart(ctx, workspaceId, { start, reason: input.reason, stop: input });
}

function checkFollowing(
  { transition, dry_run: dryRun, orphan, state }: CreateWorkspaceBuildRequest,
  next: CreateWorkspaceBuildOnSuccessRequest,
): void {
  const invalid = (message: string) => new AppError('invalid', message);
  if (transition !== 'stop') throw invalid('OnSuccess is only permitted when stopping a workspace.');
  if (next.transition !== 'start') throw invalid('OnSuccess transition must be start.');
  if (dryRun) throw invalid('OnSuccess cannot be set alongside DryRun.');
  if (orphan) throw invalid('OnSuccess cannot be set alongside Orphan.');
  if (state !== undefined && state.length > 0) throw invalid('OnSuccess cannot be set alongside ProvisionerState.');
  if (next.template_version_preset_id && !next.template_version_id)
    throw invalid('OnSuccess TemplateVersionPresetID requires TemplateVersionID.');
}

interface Restart {
  start: (workspace: WorkspaceRow) => StartChoice;
  reason: RestartWorkspaceRequest['reason'];
  /** What the stop has. Absent: what the last build has, and a stopped workspace starts immediately. */
  stop?: Pick<RestartWorkspaceRequest, 'template_version_id' | 'template_version_preset_id' | 'rich_parameter_values'>;
}

async function restart(ctx: Ctx, workspaceId: string, asked: Restart): Promise<WorkspaceBuild> {
  const workspace = await findWorkspace(ctx, 'read', workspaceId);
  const stop = orderBuild(ctx, 'stop', workspace);
  const startable = allow(ctx, 'start', workspace, workspaceObject(workspace));
  const start = { transition: 'start', workspace: startable } as const;
  const choice = asked.start(workspace);
  if (choice.log_level) requireDebug(ctx);
  const rest = { reason: asked.reason ?? 'initiator', logLevel: choice.log_level };
  const row = await withAnswers(ctx, (answers) =>
    beginInTurn(ctx, async (tx) => {
      await lockUnchanged(tx, workspace);
      const last = await latestBuild(tx, workspace.id);
      if (last && isActive(last)) {
        if (await awaits(tx, last, choice)) return last;
        throw alreadyActive();
      }
      if (!last || (!asked.stop && last.transition === 'stop' && last.job_status === 'succeeded')) {
        const prepared = await prepare(ctx, tx, answers, workspace, {
          transition: 'start',
          choice,
          last,
          values: last && (await valuesBefore(tx, last, 'start')),
        });
        const id = await insertBuild(ctx, tx, answers, start, { ...prepared, ...rest, last });
        return (await buildById(tx, id))!;
      }
      const prepared = await prepare(ctx, tx, answers, workspace, {
        transition: 'stop',
        choice: choiceOf(asked.stop ?? {}),
        last,
        values: await valuesBefore(tx, last, 'stop'),
      });
      // the start comes after the stop and uses its values
      const next = await prepare(ctx, tx, answers, workspace, {
        transition: 'start',
        choice,
        last,
        values: prepared.parameters,
      });
      await checkBuild(ctx, tx, answers, start, { ...next, last });
      const id = await insertBuild(ctx, tx, answers, stop, { ...prepared, ...rest, last });
      await insertRestart(tx, startable, {
        ...choice,
        stop_build_id: id,
        initiator_id: initiatorOf(ctx, workspace),
        reason: rest.reason,
        request_id: ctx.requestId,
        ip: ctx.ip,
        user_agent: ctx.userAgent,
      });
      await ctx.events.publish(tx, 'workspace_changed', { workspace_id: workspace.id, restarting: true });
      return (await buildById(tx, id))!;
    }),
  );
  return toBuildAlone(ctx, ctx.sql, row);
}

const choiceOf = (input: RestartWorkspaceRequest): StartChoice => ({
  template_version_id: input.template_version_id ?? null,
  template_version_preset_id: input.template_version_preset_id || null,
  parameters: (input.rich_parameter_values ?? []).map(({ name, value }) => ({ name, value })),
  log_level: input.log_level ?? '',
});

/** Whether an active build is the stop of a restart with this choice. */
async function awaits(tx: Tx, last: BuildRow, choice: StartChoice): Promise<boolean> {
  const wanted = last.job_status === 'canceling' ? undefined : await restartOf(tx, last.id);
  const text = (one: StartChoice) =>
    JSON.stringify([
      one.template_version_id,
      one.template_version_preset_id,
      one.parameters.map(({ name, value }) => [name, value]).sort(),
      one.log_level,
    ]);
  return wanted !== undefined && text(wanted) === text(choice);
}

/** `values`: those of the build before. */
async function prepare(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  workspace: WorkspaceRow,
  build: {
    transition: 'start' | 'stop';
    choice: StartChoice;
    last: BuildRow | undefined;
    values: NameValue[] | undefined;
  },
): Promise<PreparedBuild> {
  const { transition, choice, last, values } = build;
  const template = await versionRules(tx, workspace.template_id);
  const wanted = choice.template_version_id ?? undefined;
  return prepareBuild(ctx, tx, answers, template, {
    transition,
    versionId: versionFor(ctx, template, { workspace, last, transition, template_version_id: wanted }),
    ownerId: workspace.owner_id,
    presetId: choice.template_version_preset_id ?? undefined,
    given: choice.parameters,
    last: values,
  });
}

/**
 * Starts a workspace whose restart has stopped it, if nobody else was faster. If the start is not possible any more, the
 * workspace stays stopped with the reason, and its owner gets a message.
 */
export async function startAgain(ctx: Ctx, due: DueRestart): Promise<void> {
  try {
    const asked = await inNameOf(ctx, due);
    await withAnswers(asked, (answers) =>
      ctx.sql.begin(async (tx) => {
        const stopped = await takeStopped(ctx, tx, due);
        if (!stopped) return;
        const { workspace, last } = stopped;
        const order = orderBuild(asked, 'start', workspace);
        if (due.log_level) requireDebug(asked);
        const values = await valuesBefore(tx, last, 'start');
        const prepared = await prepare(asked, tx, answers, workspace, {
          transition: 'start',
          choice: due,
          last,
          values,
        });
        const rest = { reason: due.reason, logLevel: due.log_level };
        await insertBuild(asked, tx, answers, order, { ...prepared, ...rest, last });
      }),
    );
  } catch (err) {
    // the restart stays due
    if (isTransient(err) || ctx.signal.aborted) throw err;
    await recordFailure(ctx, due, err);
  }
}

/**
 * A context of the person who asked for a restart, with the permissions that they have now. Their session may have ended
 * since. @throws AppError if the person can no longer act
 */
async function inNameOf(ctx: Ctx, due: DueRestart): Promise<Ctx> {
  const user = await userById(ctx.sql, due.initiator_id);
  if (!user) throw new AppError('forbidden', 'The person who restarted the workspace was deleted.');
  if (user.status === 'suspended')
    throw new AppError('forbidden', 'The person who restarted the workspace is suspended.');
  const actor = actorOf(user, WHOLE_PERSON, ctx.config);
  return { ...ctx, actor, requestId: due.request_id, ip: due.ip, userAgent: due.user_agent };
}

/** Takes a restart. Undefined if another server has taken it, or its stop is no longer the latest build. */
async function takeStopped(
  ctx: Ctx,
  tx: Tx,
  due: DueRestart,
): Promise<{ workspace: WorkspaceRow; last: BuildRow } | undefined> {
  if (!(await takeRestart(tx, systemTask(ctx), due))) return undefined;
  const workspace = await workspaceById(tx, due.workspace_id, null);
  const last = await latestBuild(tx, due.workspace_id);
  return workspace && !workspace.deleted && last?.id === due.stop_build_id ? { workspace, last } : undefined;
}

async function recordFailure(ctx: Ctx, due: DueRestart, err: unknown): Promise<void> {
  await ctx.sql.begin(async (tx) => {
    const stopped = await takeStopped(ctx, tx, due);
    if (!stopped) return;
    const { workspace, last } = stopped;
    ctx.log.warn('a restarted workspace could not be started again', {
      workspace_id: workspace.id,
      initiator_id: due.initiator_id,
      err,
    });
    const error = `The restart stopped the workspace, but could not start it again. ${attemptError(err)}`;
    await storeFailedRestart(tx, systemTask(ctx), due, error);
    await notifyAttemptFailed(ctx, tx, { ...workspace, ...last, id: workspace.id }, { reason: 'restart', error });
    await ctx.events.publish(tx, 'workspace_changed', { workspace_id: workspace.id, owner_id: workspace.owner_id });
  });
}
