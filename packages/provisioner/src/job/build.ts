import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { create } from '@bufbuild/protobuf';
import { AppError, errorText } from '@ropewalk/kit';
import {
  LogLevel,
  MetadataSchema,
  PrebuiltWorkspaceBuildStage,
  type ResourceReplacement,
  ResourceReplacementSchema,
  type Timing,
  WorkspaceTransition,
} from '@ropewalk/wire/proto/provisioner';
import {
  type AcquiredJob_WorkspaceBuild,
  type CompletedJob,
  CompletedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import { dailyCost, describePlan, describeState, replacements } from '../resources/resources.ts';
import type { ProcessRef } from '../runner/protocol.ts';
import { Checkpoints } from '../terraform/checkpoint.ts';
import type { Env } from '../terraform/env.ts';
import { readModules } from '../terraform/modules.ts';
import type { Prepared } from '../terraform/prepare.ts';
import { providerEnv } from '../terraform/provider-env.ts';
import { readStateFile, type WholeState, wholeState } from '../terraform/state-file.ts';
import type { JobContext } from './context.ts';
import { BASE_ARGS, type JobTerraform, planFile, variableArgs } from './job-terraform.ts';

const APPLY_STAGES: Record<WorkspaceTransition, string> = {
  [WorkspaceTransition.START]: 'Starting workspace',
  [WorkspaceTransition.STOP]: 'Stopping workspace',
  [WorkspaceTransition.DESTROY]: 'Destroying workspace',
};

/** A failed build whose state the server must keep. */
export class BuildFailure extends Error {
  readonly state: Uint8Array;
  readonly timings: Timing[];
  constructor(message: string, state: Uint8Array, timings: Timing[]) {
    super(message);
    this.name = 'BuildFailure';
    this.state = state;
    this.timings = timings;
  }
}

/**
 * Starts, stops or deletes a workspace. It runs only `apply`, except if the build has a cost to commit or claims a
 * prebuilt workspace: then it runs `plan` first.
 * @throws BuildFailure with the state, if terraform may have changed something.
 */
export async function runBuild(
  ctx: JobContext,
  terraform: JobTerraform,
  request: AcquiredJob_WorkspaceBuild,
): Promise<CompletedJob> {
  const { session, job, shipper } = ctx;
  const metadata = request.metadata ?? create(MetadataSchema);
  const env = providerEnv({
    metadata,
    parameters: request.richParameterValues,
    previousParameters: request.previousParameterValues,
    externalAuth: request.externalAuthProviders,
    initScripts: ctx.initScripts,
  });
  const given = wholeState(request.state);
  const adopted = session.entry.phase === 'apply' ? session.entry.run : undefined;
  if (adopted && (await terraform.hasBegun(adopted.id, adopted.runner))) {
    const prepared = await terraform.prepare(env, { linked: true });
    shipper.resumeStage(adopted.stage);
    const replaced = adopted.replacements.map(([resource, paths]) =>
      create(ResourceReplacementSchema, { resource, paths }),
    );
    return finish(ctx, terraform, { prepared, replaced, given, transition: metadata.workspaceTransition }, () =>
      terraform.adopt('apply', adopted.id, adopted.runner, 'apply'),
    );
  }

  const transition = metadata.workspaceTransition;
  if (transition === WorkspaceTransition.DESTROY && (request.state.length === 0 || given?.managed === 0)) {
    shipper.stage('Planning infrastructure');
    shipper.say(LogLevel.INFO, 'The state is empty: there is nothing to destroy.');
    return create(CompletedJobSchema, {
      jobId: job.jobId,
      type: { case: 'workspaceBuild', value: { state: request.state } },
    });
  }
  terraform.provideAhead(env);
  await session.unpack(job.templateSourceArchive);
  if (request.state.length > 0) await writeFile(session.statePath, request.state, { mode: 0o600 });
  shipper.stage('Planning infrastructure');
  const prepared = await terraform.prepare(env);

  const variables = variableArgs(request.variableValues);
  const destroy = transition === WorkspaceTransition.DESTROY ? ['-destroy'] : [];
  const claimed = metadata.prebuiltWorkspaceBuildStage === PrebuiltWorkspaceBuildStage.CLAIM;
  let replaced: ResourceReplacement[] = [];
  let applyArgs = [...BASE_ARGS, '-auto-approve', ...destroy, ...variables.args];
  let applyEnv: Env = variables.env;
  if ((prepared.costs && destroy.length === 0) || claimed) {
    await terraform.plan('build', { variables: request.variableValues, args: destroy, providerEnv: env });
    const { plan } = await terraform.showPlan('build', env);
    const { resources } = describePlan(plan, prepared.graph, () => {});
    await commitQuota(ctx, dailyCost(resources), transition);
    if (claimed) {
      replaced = replacements(plan);
      for (const { resource, paths } of replaced)
        shipper.say(LogLevel.WARN, `${resource} # forces replacement: ${paths.join(', ')}`);
    }
    // A saved plan includes its variables.
    applyArgs = [...BASE_ARGS, '-auto-approve', planFile('build')];
    applyEnv = {};
  }
  ctx.signal.throwIfAborted();
  const stage = APPLY_STAGES[transition] ?? APPLY_STAGES[WorkspaceTransition.START];
  shipper.stage(stage);
  const note = (id: string, runner: ProcessRef) => {
    const pairs = replaced.map(({ resource, paths }): [string, string[]] => [resource, paths]);
    const { own: lines, unsent } = shipper;
    session.write({ phase: 'apply', run: { id, runner, stage, replacements: pairs, lines, unsent } });
  };
  const done = await finish(
    ctx,
    terraform,
    { prepared, replaced, given, transition: metadata.workspaceTransition },
    () => terraform.run('apply', applyArgs, { stage: 'apply', providerEnv: env, env: applyEnv, onStarted: note }),
  );
  // a workspace that was built for a pool leaves its uid to others. One that stays costs a uid, not the deletion
  if (destroy.length > 0)
    await ctx.launcher?.vacate(metadata).catch((err) => shipper.say(LogLevel.DEBUG, errorText(err)));
  return done;
}

/** What is known before an apply. */
interface BeforeApply {
  prepared: Prepared;
  replaced: ResourceReplacement[];
  /** The state that the build began with. */
  given: WholeState | undefined;
  transition: WorkspaceTransition;
}

/** Waits for the apply, delivers checkpoints meanwhile, and reads the final state. */
async function finish(
  { session, port, job, shipper }: JobContext,
  terraform: JobTerraform,
  { prepared, replaced, given, transition }: BeforeApply,
  apply: () => Promise<void>,
): Promise<CompletedJob> {
  const { progress } = terraform;
  // Also with an upstream server, which has no checkpoints: the last complete read replaces a half-written file.
  const checkpoints = new Checkpoints({
    statePath: session.statePath,
    user: session.entry.user?.uid,
    given,
    inFlight: () => progress.creating,
    deliver: async (checkpoint) => port.checkpoint?.(checkpoint),
  });
  const failure = (why: string) =>
    new BuildFailure(why, session.state({ given, read: checkpoints.newest }), progress.timings);
  try {
    await apply();
    await checkpoints.close();
  } catch (err) {
    await checkpoints.closeAfterLook();
    const { creating } = progress;
    const lost = creating.length > 0 ? `\nResources that were being created: ${creating.join(', ')}.` : '';
    throw failure(`${errorText(err)}${lost}`);
  }
  const left = readStateFile(session.statePath, session.entry.user?.uid);
  if (left === 'missing' && !existsSync(session.templateDir))
    throw failure(
      'The folder of this build is gone, so its last changes are unknown. Check for resources that no workspace uses.',
    );
  // Terraform writes a state file even without resources
  if (left === 'incomplete' || left === 'missing')
    throw failure(`terraform apply ended, but its state file is ${left}. The server keeps the last complete state.`);
  const state = left.bytes;
  try {
    const described = describeState(state, prepared.graph, (text) => {
      // without the resources that a stop has removed, no agent can run
      if (transition === WorkspaceTransition.START) shipper.say(LogLevel.WARN, text);
    });
    if (described.aiTasks.length > 1)
      throw new AppError('invalid', `a workspace can have one coder_ai_task, this one has ${described.aiTasks.length}`);
    return create(CompletedJobSchema, {
      jobId: job.jobId,
      type: {
        case: 'workspaceBuild',
        value: {
          state,
          resources: described.resources,
          timings: progress.timings,
          modules: await readModules(prepared.entry),
          resourceReplacements: replaced,
          aiTasks: described.aiTasks,
        },
      },
    });
  } catch (err) {
    throw new BuildFailure(errorText(err), state, progress.timings);
  }
}

async function commitQuota(
  { port, shipper }: JobContext,
  cost: number,
  transition: WorkspaceTransition,
): Promise<void> {
  if (cost === 0 || transition === WorkspaceTransition.DESTROY) return;
  shipper.stage('Commit quota');
  const { ok, creditsConsumed, budget } = await port.commitQuota(cost);
  if (budget < 0) {
    shipper.say(LogLevel.INFO, `This build costs ${cost} credits a day. There is no limit.`);
    return;
  }
  const spoken = `This build costs ${cost} credits a day. Other workspaces use ${creditsConsumed} of ${budget} credits.`;
  shipper.say(ok ? LogLevel.INFO : LogLevel.ERROR, spoken);
  if (ok) return;
  const advice = 'Stop or delete another workspace, or ask an administrator for a larger allowance.';
  throw new AppError('forbidden', `insufficient quota: ${spoken} ${advice}`);
}
