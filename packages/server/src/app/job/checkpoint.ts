import type { Ownership } from '../../db/queries/jobs.ts';
import type { Services } from '../context.ts';

export interface StateReport {
  state: Uint8Array;
  serial: number;
  lineage: string;
}

/** Keeps the state of a run that goes on: every completed resource is known if it is killed. False: not the owner's. */
export async function checkpoint(
  services: Services,
  own: Ownership,
  report: StateReport & { inFlight: string[] },
): Promise<boolean> {
  const rows = await services.sql`
    UPDATE workspace_builds b SET provisioner_state = ${Buffer.from(report.state)}, state_serial = ${report.serial},
      state_lineage = ${report.lineage}, in_flight = ${report.inFlight}, updated_at = now()
    FROM provisioner_jobs j
    WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
      AND j.completed_at IS NULL AND (b.state_lineage <> ${report.lineage} OR b.state_serial <= ${report.serial})
    RETURNING b.id`;
  return rows.length > 0;
}

/**
 * The final state of a run whose verdict is refused: kept for the workspace if it is of the same line, newer than what
 * is known and no later build has begun; otherwise stored beside, with a warning on the build and an audit entry.
 */
export async function deliverState(
  services: Services,
  jobId: string,
  report: StateReport,
): Promise<'kept' | 'orphaned' | 'refused'> {
  return services.sql.begin(async (tx) => {
    // as whoever begins the next build does: it sees this state, or this sees it
    await tx`SELECT 1 FROM workspaces WHERE id = (SELECT workspace_id FROM workspace_builds WHERE job_id = ${jobId}) FOR UPDATE`;
    const [build] = await tx<
      {
        id: string;
        workspace_id: string;
        organization_id: string;
        state_serial: number;
        state_lineage: string;
        is_latest: boolean;
        known: boolean;
      }[]
    >`
      SELECT b.id, b.workspace_id, j.organization_id, b.state_serial, b.state_lineage, b.provisioner_state IS NOT NULL AS known,
        NOT EXISTS (SELECT 1 FROM workspace_builds n WHERE n.workspace_id = b.workspace_id AND n.build_number > b.build_number) AS is_latest
      FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id WHERE j.id = ${jobId} FOR UPDATE OF b`;
    if (!build || report.state.length === 0) return 'refused';
    const sameLine = build.state_lineage === report.lineage;
    if (sameLine && report.serial <= build.state_serial) return 'refused';
    const state = Buffer.from(report.state);
    if (build.is_latest && (sameLine || build.state_lineage === '')) {
      await tx`UPDATE workspace_builds SET provisioner_state = ${state}, state_serial = ${report.serial},
        state_lineage = ${report.lineage}, updated_at = now() WHERE id = ${build.id}`;
      return 'kept';
    }
    const reason = build.is_latest ? 'its line of states is another one' : 'a newer build had begun';
    await tx`INSERT INTO orphan_states (workspace_build_id, state, serial, lineage, reason)
      VALUES (${build.id}, ${state}, ${report.serial}, ${report.lineage}, ${reason})`;
    await tx`UPDATE workspace_builds SET warning = ${`The final state of this build came too late (${reason}) and was stored as an orphan state.`}
      WHERE id = ${build.id}`;
    await tx`INSERT INTO audit_logs (organization_id, resource_type, resource_id, action, status_code, additional_fields)
      VALUES (${build.organization_id}, 'workspace_build', ${build.id}, 'write', 409, ${tx.json({ orphan_state: reason, serial: report.serial })})`;
    return 'orphaned';
  });
}
