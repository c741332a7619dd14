// External accounts (of a Git host, for example) that a template requires with `coder_external_auth`. This server
// cannot connect to any, so a template that requires one can be imported, but its workspaces cannot start.

import type { TemplateVersionExternalAuth } from '@platform/contract';
import { AppError } from '@platform/kit';
import type { CompletedJob_TemplateImport } from '@platform/wire/proto/provisionerd';
import type { Db, Tx } from '../../db/connect.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import type { Owned } from '../../db/queries/job-ownership.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import { insertExternalAuth, requiredExternalAuth } from '../../db/queries/template-versions.ts';
import { versionOfJob } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context.ts';
import { findVersion } from './find.ts';

const REMEDY =
  'Set "optional = true" on this coder_external_auth data source, or remove it, and push a new template version.';

const missing = (id: string) =>
  `The template requires the external auth provider "${id}", which is not configured on this server.`;

/** Stores the providers that an import found, and warns about those that prevent workspaces from starting. */
export async function storeExternalAuth(tx: Tx, job: Owned<JobRow>, done: CompletedJob_TemplateImport): Promise<void> {
  // old daemons send only names
  const providers =
    done.externalAuthProviders.length > 0
      ? done.externalAuthProviders
      : done.externalAuthProvidersNames.map((id) => ({ id, optional: false }));
  for (const { id, optional } of providers) {
    await insertExternalAuth(tx, versionOfJob(job), { id, optional });
    if (!optional) await noteInJobLog(tx, job, 'warn', `${missing(id)} Workspaces cannot start. ${REMEDY}`);
  }
}

/** Rejects a start that requires an account of a provider that is not configured. */
export async function checkExternalAuth(db: Db, versionId: string): Promise<void> {
  const id = await requiredExternalAuth(db, versionId);
  if (id !== undefined) throw new AppError('invalid', missing(id), { detail: REMEDY });
}

/**
 * The accounts that a person may connect before creating a workspace: always an empty list. As upstream, a required
 * provider that is not configured is an error, so that nobody waits for a sign-in that cannot happen.
 */
export async function getVersionExternalAuth(ctx: Ctx, id: string): Promise<TemplateVersionExternalAuth[]> {
  const version = await findVersion(ctx, 'read', id);
  const required = await requiredExternalAuth(ctx.sql, version.id);
  if (required !== undefined) throw new AppError('not_found', missing(required), { detail: REMEDY });
  return [];
}
