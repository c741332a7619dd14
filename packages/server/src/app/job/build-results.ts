import { AppError } from '@ropewalk/kit';
import { type Timing, TimingState } from '@ropewalk/wire/proto/provisioner';
import type { CompletedJob_WorkspaceBuild } from '@ropewalk/wire/proto/provisionerd';
import { FIRST_TIME, LAST_TIME, type Tx } from '../../db/connect.ts';
import type { Owned } from '../../db/owned.ts';
import { buildOfJob, insertOrphanState, setBuildWarning } from '../../db/queries/build-states.ts';
import { completeBuild, setSidebarApp } from '../../db/queries/builds.ts';
import { stopRulesOfBuild } from '../../db/queries/deadlines.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import { insertJobTimings } from '../../db/queries/timings.ts';
import { markWorkspaceDeleted } from '../../db/queries/workspaces.ts';
import type { JobRow } from '../../db/rows.ts';
import { together } from '../../db/together.ts';
import { askToReinit } from '../agent/reinit.ts';
import type { Services } from '../context/context.ts';
import { notifyReplaced } from '../notification/builds.ts';
import { countedCost } from '../quota/cost.ts';
import { quietHoursOf } from '../schedule/quiet-hours.ts';
import { stopTimes } from '../schedule/times.ts';
import { appOfJob, insertModules, insertResources } from './resources.ts';
import { offerState, readState, rejectionReason, rejectionText, type StateRejection } from './state.ts';

/** The state of a completed build must not replace the stored one. */
export class RejectedState extends AppError {
  readonly rejection: StateRejection;
  constructor(rejection: StateRejection) {
    super('invalid', rejectionText(rejection));
    this.name = 'RejectedState';
    this.rejection = rejection;
  }
}

/** The last line of the build log of a workspace whose agent cannot start yet. */
const WAITING_TEXT =
  'The server is still building the coder executable. The agent downloads it and connects when it is ready, in about half a minute.';

/**
 * Stores the results of a build.
 * @throws RejectedState when its state must not replace the stored one, AppError `invalid` for names that the platform
 * does not allow
 */
export async function storeBuild(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob_WorkspaceBuild,
): Promise<void> {
  const [rejected, rules] = await together([
    // an orphaned workspace keeps its state: nothing else names its resources
    job.input.orphan ? undefined : offerState(tx, buildOfJob(job), done.state, 'complete'),
    stopRulesOfBuild(tx, buildOfJob(job)),
  ]);
  // The server does not know what the build created or destroyed, so the build must not succeed. A deletion least of all.
  if (rejected) throw new RejectedState(rejected);
  const [build] = await together([
    completeBuild(tx, buildOfJob(job), {
      ...stopTimes(rules, quietHoursOf(services.config, rules).schedule, services.clock.now()),
      dailyCost: countedCost(done.resources.reduce((sum, resource) => sum + resource.dailyCost, 0)),
      hasAiTask: done.aiTasks.length > 0,
    }),
    insertResources(tx, job, rules.transition, done.resources, { build: true }),
    insertModules(tx, job, rules.transition, done.modules),
    storeTimings(tx, job, done.timings),
  ]);
  if (services.agentsWait() && build.transition === 'start' && done.resources.some(({ agents }) => agents.length > 0)) {
    await noteInJobLog(tx, job, 'info', WAITING_TEXT);
  }
  const sidebarApp = done.aiTasks[0]?.appId || done.aiTasks[0]?.sidebarApp?.id;
  if (sidebarApp) await setSidebarApp(tx, build, await appOfJob(tx, job.id, sidebarApp));
  if (job.input.prebuilt_stage === 'claim') {
    await askToReinit(services, tx, { workspace_id: build.workspace_id, owner_id: build.owner_id });
    const replaced = done.resourceReplacements.map(({ resource, paths }) => `${resource} (${paths.join(', ')})`);
    if (replaced.length > 0) await notifyReplaced(services, tx, build.build_id, replaced);
  }
  if (build.transition === 'delete') await markWorkspaceDeleted(tx, build);
}

const MAX_TIMINGS = 100_000;
const STAGES = new Set(['init', 'plan', 'graph', 'apply']);

/** Stores how long each stage of a build took. */
export async function storeTimings(tx: Tx, job: Owned<JobRow>, timings: Timing[]): Promise<void> {
  const at = (time: { seconds: bigint; nanos: number }) => new Date(Number(time.seconds) * 1000 + time.nanos / 1e6);
  const given = timings.flatMap(({ start, end, stage, source, action, resource, state }) =>
    start && end && STAGES.has(stage) && state !== TimingState.STARTED
      ? [{ started_at: at(start), ended_at: at(end), stage, source, action, resource }]
      : [],
  );
  // an invalid time must not fail the build
  const isTime = (date: Date) => date >= FIRST_TIME && date <= LAST_TIME;
  const rows = given.filter(({ started_at: from, ended_at: to }) => isTime(from) && isTime(to)).slice(0, MAX_TIMINGS);
  await insertJobTimings(tx, job, rows);
}

/**
 * Stores the state of a failed build. A state that must not replace the stored one is kept next to it. Returns why, if so.
 */
export async function keepState(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  bytes: Uint8Array,
): Promise<StateRejection | undefined> {
  const build = buildOfJob(job);
  const rejected = await offerState(tx, build, bytes, 'fail');
  if (!rejected) return undefined;
  services.log.warn('ignored the state of a failed build: it must not replace the stored one', {
    job_id: job.id,
    reason: rejected,
  });
  const state = readState(bytes);
  if (state) await insertOrphanState(tx, build, state, rejectionReason(rejected));
  else await setBuildWarning(tx, build, rejectionText(rejected));
  return rejected;
}
