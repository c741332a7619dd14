// External accounts (a Git host's, say) that a template asks for with `coder_external_auth`. This server cannot be
// connected to any, so a template that requires one imports, but its workspaces cannot start.

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

/** Stores the providers that an import found, and warns of those that keep workspaces from starting. */
export async function storeExternalAuth(tx: Tx, job: Owned<JobRow>, done: CompletedJob_TemplateImport): Promise<void> {
  // old daemons send names alone
  const providers =
    done.externalAuthProviders.length > 0
      ? done.externalAuthProviders
      : done.externalAuthProvidersNames.map((id) => ({ id, optional: false }));
  for (const { id, optional } of providers) {
    await insertExternalAuth(tx, versionOfJob(job), { id, optional });
    if (!optional) await noteInJobLog(tx, job, 'warn', `${missing(id)} Workspaces cannot start. ${REMEDY}`);
  }
}

/** Rejects a start that needs an account which nobody can connect. */
export async function checkExternalAuth(db: Db, versionId: string): Promise<void> {
  const id = await requiredExternalAuth(db, versionId);
  if (id !== undefined) throw new AppError('invalid', missing(id), { detail: REMEDY });
}

/**
 * The accounts that a person may connect before creating a workspace: none. As upstream, an unconfigured provider that
 * the version requires is an error, so that nobody waits for a sign-in which cannot happen.
 */
export async function getVersionExternalAuth(ctx: Ctx, id: string): Promise<TemplateVersionExternalAuth[]> {
  const version = await findVersion(ctx, 'read', id);
  const required = await requiredExternalAuth(ctx.sql, version.id);
  if (required !== undefined) throw new AppError('not_found', missing(required), { detail: REMEDY });
  return [];
}
