import type { WorkspaceQuota } from '@ropewalk/contract';
import { quotaOf } from '../../db/queries/quotas.ts';
import type { Ctx } from '../context/context.ts';
import { findOrganization } from '../find/organization.ts';
import { findUser } from '../find/user.ts';

/** What a person may spend a day in an organization, and what their workspaces there cost. */
export async function getQuota(ctx: Ctx, organization: string, user: string): Promise<WorkspaceQuota> {
  const { id } = await findOrganization(ctx, 'read', organization);
  const person = await findUser(ctx, 'read', user);
  const { budget, consumed } = await quotaOf(ctx.sql, { organizationId: id, userId: person.id });
  return { budget: budget ?? -1, credits_consumed: consumed };
}
