import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import { PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { type AcquiredJob, AcquiredJobSchema } from '@ropewalk/wire/proto/provisionerd';
import type { Owned } from '../../db/owned.ts';
import { fileData } from '../../db/queries/files.ts';
import {
  type BuildContext,
  buildContext,
  deleteWorkspaceKey,
  initiatorName,
  insertWorkspaceKey,
} from '../../db/queries/job-contents.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import { REDACTED } from '../../db/queries/template-versions.ts';
import { linkOfUser } from '../../db/queries/user-links.ts';
import { activeVariableValues, type VariableValue, variableValues } from '../../db/queries/version-contents.ts';
import type { JobRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { anyOf, type OwnerSecrets, ownerSecretsNamedIn } from '../evaluate/owner-secrets.ts';
import { connectedAccounts, tokensForBuild } from '../external-auth/for-template.ts';
import { getsSecrets, whyNoSecrets } from '../owner-consent/owner-consent.ts';
import { ensureGitSshKey } from '../user/gitsshkey.ts';
import { listText } from '../values/list-text.ts';
import { newToken } from '../values/token.ts';
import { agentTokensIn } from './state.ts';

const TRANSITION = {
  start: WorkspaceTransition.START,
  stop: WorkspaceTransition.STOP,
  delete: WorkspaceTransition.DESTROY,
} as const;

const STAGE = {
  none: PrebuiltWorkspaceBuildStage.NONE,
  create: PrebuiltWorkspaceBuildStage.CREATE,
  claim: PrebuiltWorkspaceBuildStage.CLAIM,
} as const;

/**
 * Builds the message that a daemon receives to run a job. It contains secrets of the owner only where the template
 * names them.
 */
export async function acquiredJobMessage(services: Services, job: Owned<JobRow>): Promise<AcquiredJob> {
  const { sql } = services;
  const isBuild = job.type === 'workspace_build';
  const [archive, context, name] = await Promise.all([
    fileData(sql, job.file_id),
    isBuild ? buildContext(sql, job) : undefined,
    isBuild ? undefined : initiatorName(sql, job),
  ]);
  if (!archive) throw new AppError('internal', 'The template archive of this job no longer exists.');
  const common = {
    jobId: job.id,
    createdAt: BigInt(job.created_at.getTime()),
    provisioner: job.provisioner,
    userName: context?.initiator_name ?? name ?? '',
    templateSourceArchive: archive,
  };
  switch (job.type) {
    case 'template_version_import': {
      const given = (job.input.user_variable_values ?? []).filter(({ value }) => value !== REDACTED);
      const names = new Set(given.map(({ name }) => name));
      const earlier = await activeVariableValues(sql, job.input.template_version_id!);
      return create(AcquiredJobSchema, {
        ...common,
        type: {
          case: 'templateImport',
          value: {
            metadata: { coderUrl: services.accessUrl, workspaceOwnerGroups: ['Everyone'] },
            userVariableValues: [...given, ...earlier.filter(({ name }) => !names.has(name))].map(
              ({ name, value }) => ({
                name,
                value,
                sensitive: true,
              }),
            ),
          },
        },
      });
    }
    case 'template_version_dry_run':
      return create(AcquiredJobSchema, {
        ...common,
        type: {
          case: 'templateDryRun',
          value: {
            richParameterValues: job.input.rich_parameter_values ?? [],
            variableValues: toMessage(await variableValues(sql, job.input.template_version_id!)),
            metadata: {
              coderUrl: services.accessUrl,
              workspaceName: job.input.workspace_name ?? '',
              workspaceOwnerGroups: ['Everyone'],
            },
          },
        },
      });
    case 'workspace_build':
      return create(AcquiredJobSchema, {
        ...common,
        type: { case: 'workspaceBuild', value: await build(services, job, context, archive) },
      });
  }
}

function toMessage(variables: readonly VariableValue[]) {
  return variables.filter(({ given }) => given).map(({ name, value, sensitive }) => ({ name, value, sensitive }));
}

async function build(services: Services, job: Owned<JobRow>, row: Owned<BuildContext> | undefined, archive: Buffer) {
  if (!row) throw new AppError('internal', 'The workspace build of this job no longer exists.');
  const stage = job.input.prebuilt_stage ?? 'none';
  const prompt = row.parameters.find(({ name }) => name === PROMPT_PARAMETER)?.value ?? '';
  const { sessionToken, key, oidcToken, externalAuthProviders } = await ownerSecrets(services, job, row, archive);
  return {
    workspaceBuildId: row.build_id,
    workspaceName: row.workspace_name,
    state: (job.input.orphan ? null : row.provisioner_state) ?? new Uint8Array(),
    logLevel: job.input.log_level ?? '',
    richParameterValues: row.parameters,
    previousParameterValues: row.previous_parameters,
    variableValues: toMessage(row.variables),
    externalAuthProviders,
    metadata: {
      coderUrl: services.accessUrl,
      workspaceTransition: TRANSITION[row.transition],
      workspaceName: row.workspace_name,
      workspaceId: row.workspace_id,
      workspaceBuildId: row.build_id,
      workspaceOwner: row.owner_name,
      workspaceOwnerId: row.owner_id,
      workspaceOwnerEmail: row.owner_email,
      workspaceOwnerName: row.owner_full_name,
      workspaceOwnerLoginType: row.owner_login_type,
      workspaceOwnerGroups: row.owner_groups,
      workspaceOwnerSessionToken: sessionToken,
      workspaceOwnerSshPublicKey: key?.public_key ?? '',
      workspaceOwnerSshPrivateKey: key?.private_key ?? '',
      workspaceOwnerOidcAccessToken: oidcToken,
      workspaceOwnerRbacRoles: [
        ...[...row.owner_roles, 'member'].map((name) => ({ name, orgId: '' })),
        ...[...new Set([...row.owner_org_roles, 'organization-member'])].map((name) => ({
          name,
          orgId: row.organization_id,
        })),
      ],
      templateId: row.template_id,
      templateName: row.template_name,
      templateVersion: row.version_name,
      // a task is a workspace with a prompt
      taskId: prompt === '' ? '' : row.workspace_id,
      taskPrompt: prompt,
      prebuiltWorkspaceBuildStage: STAGE[stage],
      // the claimed agents go on running, so they keep their tokens
      runningAgentAuthTokens: stage === 'claim' ? agentTokensIn(row.provisioner_state) : [],
    },
  };
}

/** The secrets of the owner that a build gets. */
async function ownerSecrets(services: Services, job: Owned<JobRow>, row: Owned<BuildContext>, archive: Buffer) {
  const { module_secrets: modules } = row;
  const named = ownerSecretsNamedIn(archive);
  const wanted = modules ? anyOf(named, modules) : named;
  // a key of the system user would open every other unclaimed workspace
  wanted.sessionToken &&= row.transition === 'start' && job.input.prebuilt_stage !== 'create';
  if (!getsSecrets(row)) {
    await Promise.all([workspaceSessionToken(services, row, false), noteWithheld(services, job, row, wanted)]);
    return { sessionToken: '', key: undefined, oidcToken: '', externalAuthProviders: [] };
  }
  const [sessionToken, key, oidcToken, externalAuthProviders] = await Promise.all([
    workspaceSessionToken(services, row, wanted.sessionToken),
    wanted.sshKey ? ensureGitSshKey(services, services.sql, row.owner_id) : undefined,
    wanted.oidcToken ? ownerOidcToken(services, row.owner_id) : '',
    tokensForBuild(services, job, row),
  ]);
  return { sessionToken, key, oidcToken, externalAuthProviders };
}

/** Says in the log of a build which of its owner's secrets it does not get, and why. */
async function noteWithheld(
  services: Services,
  job: Owned<JobRow>,
  row: Owned<BuildContext>,
  wanted: OwnerSecrets,
): Promise<void> {
  const { sql } = services;
  const owner = row.owner_name;
  const withheld = [
    ...(wanted.sessionToken ? ['session token'] : []),
    ...(wanted.sshKey ? ['SSH key for Git'] : []),
    ...(wanted.oidcToken && (await linkOfUser(sql, row.owner_id, 'oidc')) ? ['token of the identity provider'] : []),
    ...(await connectedAccounts(services, row)).map((name) => `${name} token`),
  ];
  if (withheld.length === 0) return;
  const only = `Only builds that ${owner} starts get them`;
  await noteInJobLog(
    sql,
    job,
    'warn',
    `This build does not get ${owner}'s ${listText(withheld)}, which the template may use: ${whyNoSecrets(row, owner)}. ` +
      (row.begun_by === 'other'
        ? `${only}.`
        : `${only}, and later automatic builds of the same version and parameters.`),
  );
}

/** The access token of the owner's OpenID Connect provider. Empty without one, and when it has expired. */
async function ownerOidcToken({ sql, vault, clock }: Services, ownerId: string): Promise<string> {
  const link = await linkOfUser(sql, ownerId, 'oidc');
  if (!link || (link.expires_at !== null && link.expires_at <= clock.now())) return '';
  return vault.open(link.access_token);
}

/** An API key of the owner for use in the workspace. Each start creates one, and the next build deletes it. */
async function workspaceSessionToken(services: Services, row: Owned<BuildContext>, wanted: boolean): Promise<string> {
  const { sql, events } = services;
  // the first build of a workspace finds no key of an earlier one
  const gone = row.build_number > 1 ? await deleteWorkspaceKey(sql, row) : [];
  if (gone.length > 0) await events.publish(sql, 'revoked', { api_key_ids: gone });
  if (!wanted) return '';
  const token = newToken();
  await insertWorkspaceKey(sql, row, token);
  return token.text;
}
