// A quota limits what a person spends in an organization: the daily cost of all their workspaces there. The budget is
// the sum of the allowances of their groups. An organization in which no group has an allowance does not use quotas.
//
// A workspace costs what its latest build costs. A new build costs as much as the one before, until its plan is known:
// a build that fails before that leaves the resources of the one before.

import type { Ownership } from '../../db/owned.ts';
import { setPlannedCost } from '../../db/queries/builds.ts';
import { touchJob } from '../../db/queries/job-ownership.ts';
import { lockQuota, plannedBuild, quotaOf } from '../../db/queries/quotas.ts';
import type { Services } from '../context/context.ts';
import { countedCost } from '../quota/cost.ts';
import { notOwned } from './complete.ts';

export interface QuotaVerdict {
  ok: boolean;
  /** -1: the organization uses no quotas. */
  budget: number;
  /** What the owner's other workspaces cost. */
  creditsConsumed: number;
}

/**
 * Decides whether a build may cost this much a day, and stores the cost if so. Builds of one owner are decided one after
 * the other, so that two at the same time cannot spend the same credits. Over budget, a build passes that costs less than the one
 * before.
 */
export async function commitQuota(services: Services, own: Ownership, reported: number): Promise<QuotaVerdict> {
  const cost = countedCost(reported);
  return services.sql.begin(async (tx) => {
    const job = await touchJob(tx, own, services.config.provisionerLease);
    if (!job) throw await notOwned(tx, own);
    const build = await plannedBuild(tx, job);
    if (!build) return { ok: true, budget: -1, creditsConsumed: 0 };
    const spender = { organizationId: build.organization_id, userId: build.owner_id };
    await lockQuota(tx, spender);
    const { budget, consumed } = await quotaOf(tx, spender, build.workspace_id);
    const cheaper = build.previous_cost !== null && cost < build.previous_cost;
    const ok = budget === null || consumed + cost <= budget || cheaper;
    if (ok) await setPlannedCost(tx, job, cost);
    return { ok, budget: budget === null ? -1 : countedCost(budget), creditsConsumed: countedCost(consumed) };
  });
}
