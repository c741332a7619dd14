import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import type { Db } from '../../db/connect.ts';
import { AUTOMATIC_REASONS } from '../../db/queries/builds.ts';
import { type NotedBuild, notedBuild, templateAdmins, templateMethods } from '../../db/queries/notifications.ts';
import type { JobRow } from '../../db/rows.ts';
import { together } from '../../db/together.ts';
import type { Services } from '../context/context.ts';
import { type Notification, notify } from './enqueue.ts';

const labelsOf = (build: NotedBuild) => ({
  workspace: build.workspace,
  owner: build.owner,
  initiator: build.initiator,
  template: build.template,
  version: build.version,
  transition: build.transition,
  reason: build.reason,
  build: String(build.build_number),
});
const targetsOf = (build: NotedBuild) => [build.template_id, build.workspace_id, build.owner_id, build.organization_id];

/** Notifies the owner of a new workspace that somebody created, or moved to another version of its template. */
export async function notifyBuildBegins(
  services: Services,
  db: Db,
  begins: Pick<NotedBuild, 'id' | 'transition' | 'reason'> & {
    versionId: string;
    previousVersionId: string | undefined;
  },
): Promise<void> {
  const { id, previousVersionId, versionId } = begins;
  if (begins.transition !== 'start' || AUTOMATIC_REASONS.has(begins.reason)) return;
  if (previousVersionId === versionId) return;
  const [build, chosen] = await together([notedBuild(db, id), templateMethods(db)]);
  if (!build) return;
  const notification: Notification = {
    template: previousVersionId === undefined ? 'workspaceCreated' : 'workspaceUpdated',
    to: [build.owner_id],
    labels: labelsOf(build),
    targets: targetsOf(build),
    event: `build ${id} begins`,
  };
  await notify(services, db, notification, chosen);
}

/**
 * Notifies people of a build that failed, and of a workspace that somebody else deleted. A failed build that a person started
 * is for the people who look after the template: the person sees it on the page.
 */
export async function notifyBuildEnded(
  services: Services,
  db: Db,
  build: NotedBuild,
  { job_status: status }: Pick<JobRow, 'job_status'>,
): Promise<void> {
  const failed = status === 'failed';
  if (!failed && status !== 'succeeded') return;
  // a pool has a separate message, after several failures
  if (build.initiator_id === PREBUILDS_USER_ID) return;
  const common = { labels: labelsOf(build), targets: targetsOf(build), event: `build ${build.id} ended` };
  if (failed && AUTOMATIC_REASONS.has(build.reason)) {
    // the server tries again: one message for a row of failures
    if (build.failed_attempts > 1) return;
    await notify(services, db, { ...common, template: 'automaticBuildFailed', to: [build.owner_id] });
  } else if (failed) {
    const to = (await templateAdmins(db, build.organization_id)).filter((id) => id !== build.initiator_id);
    await notify(services, db, { ...common, template: 'manualBuildFailed', to });
  } else if (build.transition === 'delete' && build.initiator_id !== build.owner_id) {
    await notify(services, db, { ...common, template: 'workspaceDeleted', to: [build.owner_id] });
  }
}

/** Notifies the people who look after a template that a claim replaced resources, which makes it as slow as a new start. */
export async function notifyReplaced(services: Services, db: Db, buildId: string, replaced: string[]): Promise<void> {
  const build = await notedBuild(db, buildId);
  if (!build) return;
  await notify(services, db, {
    template: 'resourceReplaced',
    to: await templateAdmins(db, build.organization_id),
    labels: { ...labelsOf(build), resources: replaced.join(', ') },
    targets: targetsOf(build),
    event: `build ${buildId} replaced resources`,
  });
}
