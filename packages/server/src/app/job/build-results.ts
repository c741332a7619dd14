import { AppError } from '@platform/kit';
import { type Timing, TimingState } from '@platform/wire/proto/provisioner';
import type { CompletedJob_WorkspaceBuild } from '@platform/wire/proto/provisionerd';
import type { Tx } from '../../db/connect.ts';
import { buildOfJob, insertOrphanState, setBuildWarning } from '../../db/queries/build-states.ts';
import { completeBuild, setSidebarApp } from '../../db/queries/builds.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import type { Owned } from '../../db/queries/job-ownership.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import { insertJobTimings } from '../../db/queries/timings.ts';
import { markWorkspaceDeleted } from '../../db/queries/workspaces.ts';
import { askToReinit } from '../agent/reinit.ts';
import type { Services } from '../context.ts';
import { appOfJob, insertModules, insertResources } from './resources.ts';
import { offerState, readState, refusalReason, refusalText, type StateObserver } from './state.ts';

/** A completed build came with a state that must not replace the known one. */
export class RefusedState extends AppError {
  constructor(message: string) {
    super('invalid', message);
    this.name = 'RefusedState';
  }
}

/** What a person reads at the end of a build log whose agent cannot start yet. */
const WAITING_TEXT =
  'The server is still building the coder executable. The agent downloads it and connects when it is ready, in about half a minute.';

/**
 * Stores what a build made.
 * @throws RefusedState where its state must not replace the known one, AppError `invalid` for names that the platform
 * does not allow
 */
export async function storeBuild(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob_WorkspaceBuild,
  observer: StateObserver | undefined,
): Promise<void> {
  // an orphaned workspace keeps its state: nothing else names what it consists of
  const refused = job.input.orphan ? undefined : await offerState(tx, buildOfJob(job), done.state, 'complete');
  if (refused) {
    // What the build made or destroyed is not known: it cannot count as done, least of all a deletion.
    observer?.stateRefused('complete', refused);
    throw new RefusedState(refusalText(refused));
  }
  const build = await completeBuild(tx, buildOfJob(job), {
    dailyCost: done.resources.reduce((sum, resource) => sum + resource.dailyCost, 0),
    hasAiTask: done.aiTasks.length > 0,
  });
  await insertResources(tx, job, build.transition, done.resources, { build: true });
  if (services.agentsWait() && build.transition === 'start' && done.resources.some(({ agents }) => agents.length > 0)) {
    await noteInJobLog(tx, job, 'info', WAITING_TEXT);
  }
  const sidebarApp = done.aiTasks[0]?.sidebarApp?.id;
  if (sidebarApp) await setSidebarApp(tx, build, await appOfJob(tx, job.id, sidebarApp));
  await insertModules(tx, job, build.transition, done.modules);
  await storeTimings(tx, job, done.timings);
  if (job.input.prebuilt_stage === 'claim') await askToReinit(services, tx, build.workspace_id);
  if (build.transition === 'delete') await markWorkspaceDeleted(tx, build);
}

const MOST_TIMINGS = 100_000;
const STAGES = new Set(['init', 'plan', 'graph', 'apply']);

/** Stores how long the stages of a build took. */
export async function storeTimings(tx: Tx, job: Owned<JobRow>, timings: Timing[]): Promise<void> {
  const at = (time: { seconds: bigint; nanos: number }) => new Date(Number(time.seconds) * 1000 + time.nanos / 1e6);
  const given = timings.flatMap(({ start, end, stage, source, action, resource, state }) =>
    start && end && STAGES.has(stage) && state !== TimingState.STARTED
      ? [{ started_at: at(start), ended_at: at(end), stage, source, action, resource }]
      : [],
  );
  // an impossible time must not lose the build
  const isTime = (date: Date) => !Number.isNaN(date.getTime());
  const rows = given.filter(({ started_at: from, ended_at: to }) => isTime(from) && isTime(to)).slice(0, MOST_TIMINGS);
  await insertJobTimings(tx, job, rows);
}

/** Stores the state that a failed build left; if it must not replace the known one, it is kept beside it. */
export async function keepState(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  bytes: Uint8Array,
  observer: StateObserver | undefined,
): Promise<void> {
  const build = buildOfJob(job);
  const refused = await offerState(tx, build, bytes, 'fail');
  if (!refused) return;
  observer?.stateRefused('fail', refused);
  services.log.warn('did not store the state of a failed build', { job_id: job.id, reason: refused });
  const state = readState(bytes);
  if (state) await insertOrphanState(tx, build, state, refusalReason(refused));
  else await setBuildWarning(tx, build, refusalText(refused));
}
