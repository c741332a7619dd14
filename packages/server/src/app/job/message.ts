import { create } from '@bufbuild/protobuf';
import { AppError } from '@platform/kit';
import { WorkspaceTransition } from '@platform/wire/proto/provisioner';
import { type AcquiredJob, AcquiredJobSchema } from '@platform/wire/proto/provisionerd';
import { fileData } from '../../db/queries/files.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import type { Services } from '../context.ts';
import { newToken } from '../token.ts';
import { ensureGitSshKey } from '../user/gitsshkey.ts';
import { anyOf, type OwnerSecrets, ownerSecretsNamedIn } from './owner-secrets.ts';

const TRANSITION = {
  start: WorkspaceTransition.START,
  stop: WorkspaceTransition.STOP,
  delete: WorkspaceTransition.DESTROY,
} as const;

interface NameValue {
  name: string;
  value: string;
}
interface VariableRow extends NameValue {
  default_value: string;
  required: boolean;
  sensitive: boolean;
}

/** What a daemon is told of a job. Secrets of the owner go along only where the template names them. */
export async function acquiredJobMessage(services: Services, job: JobRow): Promise<AcquiredJob> {
  const { sql } = services;
  const [archive, [initiator]] = await Promise.all([
    fileData(sql, job.file_id),
    sql<{ username: string }[]>`SELECT username FROM users WHERE id = ${job.initiator_id}`,
  ]);
  if (!archive) throw new AppError('internal', 'The template archive of this job is gone.');
  const common = {
    jobId: job.id,
    createdAt: BigInt(job.created_at.getTime()),
    provisioner: job.provisioner,
    userName: initiator?.username ?? '',
    templateSourceArchive: archive,
  };
  switch (job.type) {
    case 'template_version_import': {
      const given = job.input.user_variable_values ?? [];
      const names = new Set(given.map(({ name }) => name));
      const earlier = await sql<NameValue[]>`
        SELECT v.name, v.value FROM template_versions tv
        JOIN templates t ON t.id = tv.template_id JOIN template_version_variables v ON v.template_version_id = t.active_version_id
        WHERE tv.id = ${job.input.template_version_id!}`;
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
            variableValues: await variables(services, job.input.template_version_id!),
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
        type: { case: 'workspaceBuild', value: await build(services, job, archive) },
      });
  }
}

async function variables(services: Services, versionId: string) {
  const rows = await services.sql<VariableRow[]>`
    SELECT name, value, default_value, required, sensitive FROM template_version_variables WHERE template_version_id = ${versionId}`;
  return rows
    .filter((row) => row.value !== '' || row.default_value !== '' || row.required)
    .map(({ name, value, sensitive }) => ({ name, value, sensitive }));
}

interface BuildContext {
  build_id: string;
  build_number: number;
  transition: 'start' | 'stop' | 'delete';
  provisioner_state: Buffer | null;
  workspace_id: string;
  workspace_name: string;
  template_id: string;
  template_name: string;
  version_id: string;
  version_name: string;
  organization_id: string;
  owner_id: string;
  owner_name: string;
  owner_full_name: string;
  owner_email: string;
  owner_login_type: string;
  owner_roles: string[];
  owner_org_roles: string[];
}

async function build(services: Services, job: JobRow, archive: Buffer) {
  const { sql } = services;
  const buildId = job.input.workspace_build_id!;
  const [row] = await sql<BuildContext[]>`
    SELECT b.id AS build_id, b.build_number, b.transition, b.provisioner_state, w.id AS workspace_id, w.name AS workspace_name,
      t.id AS template_id, t.name AS template_name, tv.id AS version_id, tv.name AS version_name, w.organization_id,
      u.id AS owner_id, u.username AS owner_name, u.name AS owner_full_name, u.email AS owner_email,
      u.login_type AS owner_login_type, u.rbac_roles AS owner_roles, coalesce(m.roles, '{}') AS owner_org_roles
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id
    JOIN template_versions tv ON tv.id = b.template_version_id JOIN templates t ON t.id = w.template_id
    LEFT JOIN organization_members m ON m.user_id = u.id AND m.organization_id = w.organization_id
    WHERE b.id = ${buildId}`;
  if (!row) throw new AppError('internal', 'The workspace build of this job is gone.');
  const [modules] = await sql<OwnerSecrets[]>`
    SELECT modules_session_token AS "sessionToken", modules_ssh_key AS "sshKey"
    FROM template_version_terraform_values WHERE template_version_id = ${row.version_id}`;
  const named = ownerSecretsNamedIn(archive);
  const wanted = modules ? anyOf(named, modules) : named;
  const [parameters, previous, variableValues, sessionToken, key] = await Promise.all([
    sql<NameValue[]>`SELECT name, value FROM workspace_build_parameters WHERE workspace_build_id = ${buildId}`,
    sql<NameValue[]>`SELECT p.name, p.value FROM workspace_build_parameters p
      JOIN workspace_builds b ON b.id = p.workspace_build_id
      WHERE b.workspace_id = ${row.workspace_id} AND b.build_number = ${row.build_number - 1}`,
    variables(services, row.version_id),
    workspaceSessionToken(services, row, wanted.sessionToken),
    wanted.sshKey ? ensureGitSshKey(services, sql, row.owner_id) : undefined,
  ]);
  return {
    workspaceBuildId: row.build_id,
    workspaceName: row.workspace_name,
    state: (job.input.orphan ? null : row.provisioner_state) ?? new Uint8Array(),
    logLevel: job.input.log_level ?? '',
    richParameterValues: parameters.map(({ name, value }) => ({ name, value })),
    previousParameterValues: previous.map(({ name, value }) => ({ name, value })),
    variableValues,
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
      workspaceOwnerGroups: ['Everyone'],
      workspaceOwnerSessionToken: sessionToken,
      workspaceOwnerSshPublicKey: key?.public_key ?? '',
      workspaceOwnerSshPrivateKey: key?.private_key ?? '',
      workspaceOwnerRbacRoles: [
        ...[...row.owner_roles, 'member'].map((name) => ({ name, orgId: '' })),
        ...[...row.owner_org_roles, 'organization-member'].map((name) => ({ name, orgId: row.organization_id })),
      ],
      templateId: row.template_id,
      templateName: row.template_name,
      templateVersion: row.version_name,
    },
  };
}

/** A key of the owner for the workspace's own use: fresh at each start, gone with the next build. */
async function workspaceSessionToken(services: Services, row: BuildContext, wanted: boolean): Promise<string> {
  const { sql, events } = services;
  const name = `${row.owner_id}_${row.workspace_id}_session_token`;
  const gone = await sql<
    { id: string }[]
  >`DELETE FROM api_keys WHERE user_id = ${row.owner_id} AND token_name = ${name} RETURNING id`;
  if (gone.length > 0) await events.publish(sql, 'revoked', { api_key_ids: gone.map(({ id }) => id) });
  if (!wanted || row.transition !== 'start') return '';
  const token = newToken();
  await sql`INSERT INTO api_keys (id, user_id, hashed_secret, token_name, login_type, lifetime_seconds, expires_at)
    VALUES (${token.id}, ${row.owner_id}, ${token.hashedSecret}, ${name}, 'token', 2592000, now() + interval '30 days')`;
  return token.text;
}
