import type { Db } from '../../db/connect.ts';
import { notedBuild } from '../../db/queries/notifications.ts';
import type { WorkspaceRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { notify } from './enqueue.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

type Noted = Pick<WorkspaceRow, 'id' | 'name' | 'owner_id' | 'owner_name' | 'organization_id' | 'template_id'>;

const targetsOf = (row: Noted) => [row.id, row.owner_id, row.template_id, row.organization_id];
const labelsOf = (row: Noted) => ({ workspace: row.name, owner: row.owner_name });

/** `3 days`, `1 hour`, `20 minutes`: the time in its largest whole unit. */
export function timeText(ms: number): string {
  const [unit, count] =
    ms >= 2 * DAY_MS
      ? ['day', ms / DAY_MS]
      : ms >= HOUR_MS
        ? ['hour', ms / HOUR_MS]
        : ['minute', Math.max(1, ms / 60_000)];
  const whole = Math.round(count);
  return `${whole} ${unit}${whole === 1 ? '' : 's'}`;
}

const deletionText = (services: Services, deletingAt: Date | null): string =>
  deletingAt ? ` It will be deleted in ${timeText(deletingAt.getTime() - services.clock.now().getTime())}.` : '';

/** A message to the owner: a workspace became dormant because nobody used it for `unusedMs`. */
export const notifyDormant = (services: Services, db: Db, row: Dormant, unusedMs: number): Promise<void> =>
  sendDormant(services, db, row, { initiator: 'The server', why: `nobody used it for ${timeText(unusedMs)}` });

/** A message to the owner: somebody made a workspace dormant. */
export const notifyMadeDormant = (services: Services, db: Db, row: Dormant, initiator: string): Promise<void> =>
  sendDormant(services, db, row, { initiator, why: `${initiator} marked it as dormant` });

type Dormant = Noted & Pick<WorkspaceRow, 'deleting_at'>;

async function sendDormant(
  services: Services,
  db: Db,
  row: Dormant,
  { initiator, why }: { initiator: string; why: string },
): Promise<void> {
  await notify(services, db, {
    template: 'workspaceDormant',
    to: [row.owner_id],
    labels: { ...labelsOf(row), initiator, reason: `${why}.${deletionText(services, row.deleting_at)}` },
    targets: targetsOf(row),
  });
}

/** A message to the owner, once for each deadline: the workspace stops soon. */
export async function notifyStopsSoon(services: Services, db: Db, row: Noted & { deadline: Date }): Promise<void> {
  const time = timeText(row.deadline.getTime() - services.clock.now().getTime());
  await notify(services, db, {
    template: 'workspaceStopsSoon',
    to: [row.owner_id],
    labels: { ...labelsOf(row), time, timeTilShutdown: `in ${time}`, deadline: row.deadline.toISOString() },
    targets: targetsOf(row),
    event: `workspace ${row.id} stops at ${row.deadline.toISOString()}`,
  });
}

/** A message to the owner: the template now deletes a dormant workspace. */
export async function notifyMarkedForDeletion(
  services: Services,
  db: Db,
  row: Noted & { deleting_at: Date },
): Promise<void> {
  await notify(services, db, {
    template: 'workspaceMarkedForDeletion',
    to: [row.owner_id],
    labels: {
      ...labelsOf(row),
      time: timeText(Math.max(0, row.deleting_at.getTime() - services.clock.now().getTime())),
    },
    targets: targetsOf(row),
  });
}

/** A message to the owner: an automatic start moved the workspace to the active version of its template. */
export async function notifyAutoUpdated(services: Services, db: Db, row: Noted, buildId: string): Promise<void> {
  const build = await notedBuild(db, buildId);
  await notify(services, db, {
    template: 'workspaceAutoUpdated',
    to: [row.owner_id],
    labels: { ...labelsOf(row), version: build?.version ?? '', message: build?.version_message ?? '' },
    targets: targetsOf(row),
    event: `build ${buildId} begins`,
  });
}

/** A message to the owner: an automatic build could not even begin. */
export async function notifyAttemptFailed(
  services: Services,
  db: Db,
  row: Noted & { build_number: number },
  { reason, error }: { reason: string; error: string },
): Promise<void> {
  await notify(services, db, {
    template: 'automaticBuildFailed',
    to: [row.owner_id],
    labels: { ...labelsOf(row), reason: `${reason}. ${error}`, build: String(row.build_number) },
    targets: targetsOf(row),
  });
}
