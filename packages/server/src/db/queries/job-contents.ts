// The data that a daemon receives with a build.

import type { Db } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { BuildParameter, JobRow, Transition } from '../rows.ts';
import { type BuildConsent, consentColumns } from './owner-consent.ts';
import type { VariableValue } from './version-contents.ts';

export interface BuildContext extends BuildConsent {
  build_id: string;
  build_number: number;
  transition: Transition;
  provisioner_state: Buffer | null;
  workspace_id: string;
  workspace_name: string;
  template_id: string;
  template_name: string;
  version_id: string;
  organization_id: string;
  owner_id: string;
  owner_name: string;
  owner_full_name: string;
  owner_email: string;
  owner_login_type: string;
  owner_roles: string[];
  owner_org_roles: string[];
  /** The names of the owner's groups in the workspace's organization, with Everyone. */
  owner_groups: string[];
  parameters: BuildParameter[];
  /** The parameters of the previous build. */
  previous_parameters: BuildParameter[];
  variables: VariableValue[];
  /** The ids of the external auth providers that the version uses. */
  external_auth: string[];
  /** The owner's secrets that the fetched modules of the version name. Null: unknown. */
  module_secrets: { sessionToken: boolean; sshKey: boolean; oidcToken: boolean } | null;
}

/** All that a daemon receives with the build of a job, besides secrets and files. One statement: a build waits for it. */
export async function buildContext(db: Db, job: Owned<JobRow>): Promise<Owned<BuildContext> | undefined> {
  const [row] = await db<Owned<BuildContext>[]>`
    SELECT b.id AS build_id, b.build_number, b.transition, b.provisioner_state, w.id AS workspace_id, w.name AS workspace_name,
      t.id AS template_id, t.name AS template_name, tv.id AS version_id, tv.name AS version_name, w.organization_id,
      u.id AS owner_id, u.username AS owner_name, u.name AS owner_full_name, u.email AS owner_email,
      u.login_type AS owner_login_type, u.rbac_roles AS owner_roles,
      CASE WHEN m.user_id IS NULL THEN '{}' ELSE m.roles || o.default_org_member_roles END AS owner_org_roles,
      ARRAY(SELECT g.name FROM all_group_members gm JOIN groups g ON g.id = gm.group_id
        WHERE gm.user_id = u.id AND gm.organization_id = w.organization_id ORDER BY g.name) AS owner_groups,
      (SELECT username FROM users WHERE id = ${job.initiator_id}) AS initiator_name, ${consentColumns(db)},
      ${parametersOf(db, db`b.id`)} AS parameters,
      ${parametersOf(db, db`(SELECT id FROM workspace_builds WHERE workspace_id = w.id AND build_number = b.build_number - 1)`)}
        AS previous_parameters,
      (SELECT coalesce(jsonb_agg(jsonb_build_object('name', name, 'type', type, 'value', value, 'given', given,
          'sensitive', sensitive)), '[]')
        FROM template_version_variables WHERE template_version_id = tv.id) AS variables,
      ARRAY(SELECT provider_id FROM template_version_external_auth WHERE template_version_id = tv.id
        ORDER BY provider_id) AS external_auth,
      (SELECT jsonb_build_object('sessionToken', modules_session_token, 'sshKey', modules_ssh_key, 'oidcToken', modules_oidc_token)
        FROM template_version_terraform_values WHERE template_version_id = tv.id) AS module_secrets
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id
    JOIN template_versions tv ON tv.id = b.template_version_id JOIN templates t ON t.id = w.template_id
    JOIN organizations o ON o.id = w.organization_id
    LEFT JOIN organization_members m ON m.user_id = u.id AND m.organization_id = w.organization_id
    WHERE b.id = ${job.input.workspace_build_id!}`;
  return row;
}

const parametersOf = (db: Db, buildId: ReturnType<Db>) => db`(
  SELECT coalesce(jsonb_agg(jsonb_build_object('name', name, 'value', value) ORDER BY name), '[]')
  FROM workspace_build_parameters WHERE workspace_build_id = ${buildId})`;

/** The name of the API key that a workspace uses on behalf of its owner. */
const keyName = (build: BuildContext) => `${build.owner_id}_${build.workspace_id}_session_token`;

/** Deletes the API key of the previous build. Returns its id, if there was one. */
export async function deleteWorkspaceKey(db: Db, build: Owned<BuildContext>): Promise<string[]> {
  const gone = await db<{ id: string }[]>`
    DELETE FROM api_keys WHERE user_id = ${build.owner_id} AND token_name = ${keyName(build)} RETURNING id`;
  return gone.map(({ id }) => id);
}

/** Adds an API key of the owner for use in the workspace. */
export async function insertWorkspaceKey(
  db: Db,
  build: Owned<BuildContext>,
  key: { id: string; hashedSecret: Buffer | string },
): Promise<void> {
  await db`INSERT INTO api_keys (id, user_id, hashed_secret, token_name, login_type, lifetime_seconds, expires_at)
    VALUES (${key.id}, ${build.owner_id}, ${key.hashedSecret}, ${keyName(build)}, 'token', 2592000, now() + interval '30 days')`;
}

/** The name of the person who started a job. */
export async function initiatorName(
  db: Db,
  { initiator_id }: Pick<JobRow, 'initiator_id'>,
): Promise<string | undefined> {
  const [initiator] = await db<{ username: string }[]>`SELECT username FROM users WHERE id = ${initiator_id}`;
  return initiator?.username;
}
