import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { allow } from '../../../authz/authorize.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../../db/connect.ts';
import {
  AUTOMATIC_REASONS,
  anyBuildBegan,
  type BuildOrder,
  insertBuildParameters,
  insertBuildRow,
} from '../../../db/queries/builds.ts';
import { countMatching } from '../../../db/queries/daemons.ts';
import { finishAtOnce } from '../../../db/queries/job-ownership.ts';
import { insertJob, type NewJob } from '../../../db/queries/job-queue.ts';
import { jobById } from '../../../db/queries/jobs.ts';
import { usernames } from '../../../db/queries/users.ts';
import { markWorkspaceDeleted } from '../../../db/queries/workspaces.ts';
import type { BuildRow, BuiltWorkspace, Tags, Transition } from '../../../db/rows.ts';
import { together } from '../../../db/together.ts';
import { audit } from '../../audit-entries/audit.ts';
import type { Ctx } from '../../context/context.ts';
import { reportBuild } from '../../context/enqueued-builds.ts';
import { checkExternalAuth } from '../../external-auth/for-template.ts';
import { workspaceObject } from '../../find/workspace.ts';
import { announce } from '../../job/complete.ts';
import { announcePending, postJob } from '../../job/post.ts';
import type { TerraformState } from '../../job/state.ts';
import { mutateTags } from '../../job/tags.ts';
import { buildTags } from '../../job/workspace-tags.ts';
import { notifyBuildBegins } from '../../notification/builds.ts';
import type { Answers } from '../../parameters/answers.ts';
import type { PreparedBuild } from './prepare.ts';

export interface NewBuild extends PreparedBuild {
  reason: string;
  logLevel: string;
  /** Absent: the state of the previous build. */
  state?: TerraformState | undefined;
  /** A deletion that leaves the workspace's resources in place. */
  orphan?: boolean | undefined;
  last?: BuildRow | undefined;
  /** Whether it gives a prebuilt workspace to its new owner. */
  claims?: boolean;
}

export const alreadyActive = () => new AppError('conflict', 'A workspace build is already active.');

/** Authorizes a transition of a workspace. */
export function orderBuild(ctx: Ctx, transition: Transition, workspace: BuiltWorkspace): BuildOrder {
  const object = workspaceObject(workspace);
  switch (transition) {
    case 'start':
      return { transition, workspace: allow(ctx, transition, workspace, object) };
    case 'stop':
      return { transition, workspace: allow(ctx, transition, workspace, object) };
    case 'delete':
      return { transition, workspace: allow(ctx, transition, workspace, object) };
  }
}

/** The person in whose name a build is: the actor, or the owner for builds that the server makes by itself. */
export const initiatorOf = ({ actor }: Pick<Ctx, 'actor'>, { owner_id: ownerId }: Pick<BuiltWorkspace, 'owner_id'>) =>
  actor.kind === 'user' ? actor.id : ownerId;

/** What decides whether a build can be inserted. */
type CheckedBuild = Pick<NewBuild, 'version' | 'parameters' | 'orphan' | 'last' | 'claims'>;

/**
 * Checks what a build needs before it can be inserted: the owner's external accounts, and tags of its template that can be
 * evaluated. Returns the tags of its job.
 */
export async function checkBuild(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  order: BuildOrder,
  build: CheckedBuild,
): Promise<Tags> {
  const { owner_id: ownerId } = order.workspace;
  // a prebuilt workspace has nobody yet who could connect an account
  const needsAccounts = order.transition === 'start' && ownerId !== PREBUILDS_USER_ID;
  const [, tags] = await together([
    needsAccounts ? checkExternalAuth(ctx, tx, order.workspace, build) : undefined,
    tagsOf(ctx, tx, answers, order, build),
  ]);
  return tags;
}

async function tagsOf(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  { workspace, transition }: BuildOrder,
  build: CheckedBuild,
): Promise<Tags> {
  const { version, parameters } = build;
  try {
    const { id, name, owner_id: ownerId } = workspace;
    const prebuilt = prebuiltStage(ownerId, build);
    return await buildTags(ctx, tx, answers, {
      versionId: version.id,
      ownerId,
      parameters,
      workspace: { id, name, transition, ...(prebuilt ? { prebuilt } : {}) },
    });
  } catch (err) {
    if (!build.orphan || !(err instanceof AppError)) throw err;
    // an orphaned workspace can be deleted even when its template can no longer be read
    const job = build.last && (await jobById(tx, build.last.job_id));
    return job?.tags ?? mutateTags(workspace.owner_id);
  }
}

/** What a build does with a prebuilt workspace. */
const prebuiltStage = (ownerId: string, { claims }: Pick<NewBuild, 'claims'>): 'create' | 'claim' | undefined =>
  ownerId === PREBUILDS_USER_ID ? 'create' : claims ? 'claim' : undefined;

/**
 * Inserts a build with its job and notifies daemons. Returns the build's id. The caller holds the lock on the
 * workspace's row.
 */
export async function insertBuild(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  order: BuildOrder,
  build: NewBuild,
): Promise<string> {
  const { transition, workspace } = order;
  const { version, parameters, presetId, last, state, orphan, reason, claims } = build;
  const prebuilt = prebuiltStage(workspace.owner_id, build);
  const tags = await checkBuild(ctx, tx, answers, order, build);
  answers.whenOver((begun) => {
    const { replicaId } = ctx;
    const { provisioner } = version;
    reportBuild({ replicaId, provisioner, transition, begun, reason: prebuilt === 'create' ? 'prebuild' : reason });
  });
  const buildId = crypto.randomUUID();
  const initiatorId = initiatorOf(ctx, workspace);
  const jobId = crypto.randomUUID();
  const background = AUTOMATIC_REASONS.has(reason) || initiatorId === PREBUILDS_USER_ID;
  // a workspace can always be stopped and deleted
  const limited = transition === 'start' && !background;
  const add = (job: NewJob) => (limited ? postJob(ctx, tx, order, job) : insertJob(tx, order, job));
  const row = { id: buildId, templateVersionId: version.id, presetId, initiatorId, jobId, reason, state, last };
  const [job, made, names] = await together([
    add({
      id: jobId,
      initiator_id: initiatorId,
      type: 'workspace_build',
      file_id: version.file_id,
      template_version_id: version.id,
      input: {
        workspace_build_id: buildId,
        ...(build.logLevel ? { log_level: build.logLevel } : {}),
        ...(orphan ? { orphan: true } : {}),
        ...(prebuilt ? { prebuilt_stage: prebuilt } : {}),
      },
      tags,
      background,
    }),
    insertBuildRow(tx, order, row).catch((err) => {
      if (isPgError(err, UNIQUE_VIOLATION)) throw alreadyActive();
      throw err;
    }),
    usernames(tx, [workspace.owner_id]),
  ]);
  const previousVersionId = claims ? undefined : last?.template_version_id;
  await together([
    parameters.length > 0 ? insertBuildParameters(tx, made, parameters) : undefined,
    audit(ctx, tx, {
      resourceType: 'workspace_build',
      resourceId: buildId,
      target: workspace.name,
      action: transition,
      organizationId: workspace.organization_id,
      status: 201,
      // a pool's account acts without a session. What the clock starts for a person is not recorded as that person's
      userId: initiatorId === PREBUILDS_USER_ID ? initiatorId : undefined,
      fields: {
        workspace_id: workspace.id,
        workspace_name: workspace.name,
        workspace_owner: names.get(workspace.owner_id) ?? '',
        build_number: String((last?.build_number ?? 0) + 1),
        build_reason: reason,
        ...(orphan ? { orphan: true } : state ? stateFields(state) : {}),
      },
      before: last && { template_version_id: last.template_version_id },
      after: { template_version_id: version.id },
    }),
    notifyBuildBegins(ctx, tx, { id: buildId, transition, reason, versionId: version.id, previousVersionId }),
  ]);
  if (
    order.transition === 'delete' &&
    (await countMatching(tx, job)).available === 0 &&
    (orphan || (state === undefined && !(await anyBuildBegan(tx, workspace.id, buildId))))
  ) {
    // there is nothing to destroy, and no daemon to report it
    const done = await finishAtOnce(tx, job);
    await markWorkspaceDeleted(tx, order.workspace);
    await announce(ctx, tx, done);
  } else {
    await announcePending(ctx, tx, job);
    await ctx.events.publish(tx, 'workspace_changed', { workspace_id: workspace.id, owner_id: workspace.owner_id });
  }
  return buildId;
}

/** The audit fields of a build that does not begin with the state of the previous one. */
export function stateFields({ serial, lineage, bytes }: TerraformState): Record<string, unknown> {
  return { pushed_state: { serial, lineage, bytes: bytes.length } };
}
