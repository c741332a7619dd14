// The numbers that limits apply to: what a person, an organization, a workspace or a template has. See app/context/limits.ts.

import type { Tx } from '../connect.ts';

/** Makes other decisions about the same limit of the same holder wait until the transaction ends. */
export async function lockLimit(tx: Tx, limit: string, holderId: string): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(hashtextextended(${`limit:${limit}:${holderId}`}, 0))`;
}

/** The person's tokens that have not expired, or with `named: false` the other keys and sessions. */
export async function countKeys(tx: Tx, userId: string, { named, at }: { named: boolean; at: Date }): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM api_keys
    WHERE user_id = ${userId} AND (login_type = 'token') = ${named} AND expires_at > ${at}`;
  return row!.count;
}

export async function countProvisionerKeys(tx: Tx, organizationId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM provisioner_keys
    WHERE organization_id = ${organizationId}`;
  return row!.count;
}

export async function countWorkspaces(tx: Tx, ownerId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM workspaces
    WHERE owner_id = ${ownerId} AND NOT deleted`;
  return row!.count;
}

/** The jobs that a person posted and no daemon has taken, without those that the server posted by itself. */
export async function countPendingJobs(tx: Tx, initiatorId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM provisioner_jobs
    WHERE initiator_id = ${initiatorId} AND NOT background
      AND started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL`;
  return row!.count;
}

export async function countGroups(tx: Tx, organizationId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM groups
    WHERE organization_id = ${organizationId} AND id <> organization_id`;
  return row!.count;
}

export async function countTemplates(tx: Tx, organizationId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM templates
    WHERE organization_id = ${organizationId} AND NOT deleted`;
  return row!.count;
}

/** A template's versions, archived ones included. */
export async function countVersions(tx: Tx, templateId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM template_versions
    WHERE template_id = ${templateId}`;
  return row!.count;
}

/** The versions without a template that a person has created since then. */
export async function countVersionsWithoutTemplate(tx: Tx, creatorId: string, since: Date): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM template_versions
    WHERE template_id IS NULL AND created_by = ${creatorId} AND created_at > ${since}`;
  return row!.count;
}

export async function countCustomRoles(tx: Tx, organizationId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM custom_roles
    WHERE organization_id = ${organizationId}`;
  return row!.count;
}

export async function countOrganizations(tx: Tx): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM organizations WHERE NOT deleted`;
  return row!.count;
}

/** The shared ports of a workspace besides this one. */
export async function countOtherPortShares(
  tx: Tx,
  workspaceId: string,
  { agent_name, port }: { agent_name: string; port: number },
): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM workspace_agent_port_shares
    WHERE workspace_id = ${workspaceId} AND (agent_name, port) <> (${agent_name}, ${port})`;
  return row!.count;
}
