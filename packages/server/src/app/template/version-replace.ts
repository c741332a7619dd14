import type { CreateTemplateVersionRequest } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Allowed } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Tx } from '../../db/connect.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { archiveUnusedVersion, setVersionName } from '../../db/queries/template-versions.ts';
import type { JobRow, VersionRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { cancelWithin } from '../job/cancel.ts';
import { noteWrite } from './versions.ts';

/** A version whose import waits, and that another version replaces. */
export interface Replaced {
  version: Allowed<'update', VersionRow>;
  /** Its import. */
  job: JobRow;
  /**
   * What the new version takes over unless its request has others. The values of secret variables are among it: the API
   * never returns them.
   */
  request: Pick<CreateTemplateVersionRequest, 'name' | 'message' | 'user_variable_values'>;
}

/**
 * The version to replace. A person who may change it may also import its archive with its variables again.
 * @throws AppError `precondition` if its import no longer waits
 */
export async function findReplaced(ctx: Ctx, organizationId: string, id: string): Promise<Replaced> {
  const version = await findVersion(ctx, 'update', id);
  const job = await jobById(ctx.sql, version.job_id);
  if (!job || version.organization_id !== organizationId) throw notFound();
  if (job.job_status !== 'pending')
    throw new AppError(
      'precondition',
      `Cannot replace template version ${JSON.stringify(version.name)}: its import is ${job.job_status}.`,
      {
        detail: 'Only a version whose import waits for a provisioner daemon can be replaced. Push the template again.',
      },
    );
  const { name, message } = version;
  return { version, job, request: { name, message, user_variable_values: job.input.user_variable_values ?? [] } };
}

/** Cancels the import, and frees the name of the version for the one that replaces it. */
export async function retireReplaced(ctx: Ctx, tx: Tx, version: Replaced['version']): Promise<void> {
  const name = version.template_id ? `unused-${version.id.slice(0, 8)}` : version.name;
  await cancelWithin(ctx, tx, version, { expected: 'pending' });
  if (version.template_id) {
    await setVersionName(tx, version, { name, message: version.message });
    await archiveUnusedVersion(tx, version);
  }
  await noteWrite(ctx, tx, version, { name, archived: version.template_id !== null }, { canceled: true });
}
