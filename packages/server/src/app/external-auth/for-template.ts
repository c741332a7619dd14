// External accounts (of a Git host, for example) that a template uses with `coder_external_auth`. A template that requires
// one of a provider that is not configured can be imported, but its workspaces cannot start.

import type { TemplateVersionExternalAuth } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { CompletedJob_TemplateImport } from '@ropewalk/wire/proto/provisionerd';
import type { ExternalAuthProvider } from '../../config/external-auth.ts';
import type { Tx } from '../../db/connect.ts';
import type { Owned } from '../../db/owned.ts';
import { externalAuthLink } from '../../db/queries/external-auth-links.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import { insertExternalAuth, versionProviders } from '../../db/queries/template-versions.ts';
import { usernames } from '../../db/queries/users.ts';
import { versionOfJob } from '../../db/queries/version-contents.ts';
import type { BuildParameter, BuiltWorkspace, JobRow } from '../../db/rows.ts';
import type { Ctx, Services } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { consentTo, getsSecrets, notStarted } from '../owner-consent/owner-consent.ts';
import { listText } from '../values/list-text.ts';
import { connectUrl, findProvider, freshLink, knownProblem, validLink } from './links.ts';

const REMEDY =
  'Configure the provider on the server. Or set "optional = true" on this coder_external_auth data source, or remove it, ' +
  'and push a new template version.';

const missing = (id: string) =>
  `The template requires the external auth provider "${id}", which is not configured on this server.`;

/** Stores the providers that an import found, and warns about those that prevent workspaces from starting. */
export async function storeExternalAuth(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob_TemplateImport,
): Promise<void> {
  // old daemons send only names
  const providers =
    done.externalAuthProviders.length > 0
      ? done.externalAuthProviders
      : done.externalAuthProvidersNames.map((id) => ({ id, optional: false }));
  for (const { id, optional } of providers) {
    await insertExternalAuth(tx, versionOfJob(job), { id, optional });
    if (optional || findProvider(services, id)) continue;
    await noteInJobLog(tx, job, 'warn', `${missing(id)} Workspaces cannot start. ${REMEDY}`);
  }
}

/**
 * The providers of a version that are configured.
 * @throws AppError with this code if a required one is not
 */
async function configuredProviders(
  ctx: Ctx,
  db: Tx | Ctx['sql'],
  versionId: string,
  code: 'invalid' | 'not_found',
): Promise<{ provider: ExternalAuthProvider; optional: boolean }[]> {
  return (await versionProviders(db, versionId)).flatMap(({ provider_id: id, optional }) => {
    const provider = findProvider(ctx, id);
    if (!provider && !optional) throw new AppError(code, missing(id), { detail: REMEDY });
    return provider ? [{ provider, optional }] : [];
  });
}

/**
 * Rejects a start that requires an account that is not connected, or of a provider that is not configured, and one that
 * would not get the account's token.
 */
export async function checkExternalAuth(
  ctx: Ctx,
  tx: Tx,
  workspace: BuiltWorkspace,
  { version, parameters }: { version: { id: string; name: string }; parameters: readonly BuildParameter[] },
): Promise<void> {
  const { owner_id: ownerId } = workspace;
  const required = (await configuredProviders(ctx, tx, version.id, 'invalid')).filter(({ optional }) => !optional);
  if (required.length === 0) return;
  const consent = await consentTo(ctx, tx, workspace, version.id, parameters);
  if (!getsSecrets(consent)) {
    const [owner = ''] = (await usernames(tx, [ownerId])).values();
    const names = listText(required.map(({ provider }) => provider.display_name));
    throw new AppError(
      'invalid',
      consent.begun_by === 'other'
        ? `Only ${owner} can start this workspace: its template requires their ${names} account.`
        : `The workspace cannot start automatically: its template requires ${owner}'s ${names} account, and ` +
            `${notStarted(owner, version.name)}. Start it once yourself.`,
    );
  }
  for (const { provider } of required) {
    const link = await externalAuthLink(tx, ownerId, provider.id);
    if (link && knownProblem(ctx, provider, link) === undefined) continue;
    const whose = ctx.actor.kind === 'user' && ctx.actor.id === ownerId ? 'Your' : "The owner's";
    throw new AppError(
      'invalid',
      link
        ? `${whose} ${provider.display_name} account has to be connected again before the workspace can start.`
        : `${whose} ${provider.display_name} account has to be connected before the workspace can start.`,
      { detail: `Connect it here: ${connectUrl(ctx, provider)}` },
    );
  }
}

/**
 * The accounts that a person may connect before creating a workspace. As upstream, a required provider that is not
 * configured is an error, so that nobody waits for a sign-in that cannot happen.
 */
export async function getVersionExternalAuth(ctx: Ctx, id: string): Promise<TemplateVersionExternalAuth[]> {
  const version = await findVersion(ctx, 'read', id);
  const providers = await configuredProviders(ctx, ctx.sql, version.id, 'not_found');
  const { actor } = ctx;
  return Promise.all(
    providers.map(async ({ provider, optional }) => {
      const link = actor.kind === 'user' ? await externalAuthLink(ctx.sql, actor.id, provider.id) : undefined;
      return {
        id: provider.id,
        type: provider.type,
        display_name: provider.display_name,
        display_icon: provider.display_icon,
        authenticate_url: connectUrl(ctx, provider),
        optional,
        // while the provider does not answer, nobody can connect the account again either
        authenticated:
          link !== undefined &&
          (await validLink(ctx, provider, link).then(
            ({ problem }) => problem === undefined,
            () => knownProblem(ctx, provider, link) === undefined,
          )),
      };
    }),
  );
}

/** The names of the accounts that the owner of a build connected, of the providers of the version. */
export async function connectedAccounts(
  services: Services,
  { external_auth, owner_id }: { external_auth: readonly string[]; owner_id: string },
): Promise<string[]> {
  const names = external_auth.map(async (id) => {
    const provider = findProvider(services, id);
    return provider && (await externalAuthLink(services.sql, owner_id, id)) ? [provider.display_name] : [];
  });
  return (await Promise.all(names)).flat();
}

/** The tokens that a build receives: of the accounts that the owner connected, for the providers of the version. */
export async function tokensForBuild(
  services: Services,
  job: Owned<JobRow>,
  { external_auth, owner_id }: { external_auth: readonly string[]; owner_id: string },
): Promise<{ id: string; accessToken: string }[]> {
  const { sql } = services;
  const tokens = await Promise.all(
    external_auth.map(async (id) => {
      const provider = findProvider(services, id);
      const link = provider && (await externalAuthLink(sql, owner_id, id));
      if (!link) return [];
      try {
        const state = await freshLink(services, provider, link);
        if (state.problem === undefined) return [{ id, accessToken: services.vault.open(state.link.access_token) }];
        await noteInJobLog(sql, job, 'warn', `No ${provider.display_name} token for this build. ${state.problem}`);
      } catch (err) {
        if (!(err instanceof AppError)) throw err;
        await noteInJobLog(sql, job, 'warn', `No ${provider.display_name} token for this build. ${err.message}`);
      }
      return [];
    }),
  );
  return tokens.flat();
}
