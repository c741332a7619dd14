import type {
  DAUsResponse,
  GetUserStatusCountsResponse,
  UserActivityInsightsResponse,
  UserLatencyInsightsResponse,
  UserStatus,
} from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { latencyByUser, statusDeltas, usageByUser } from '../../db/queries/insights.ts';
import { dailyActiveUsers } from '../../db/queries/templates.ts';
import type { Ctx } from '../context/context.ts';
import { time } from '../values/time.ts';
import { DAY_MS, insightsScope, type PeriodQuery } from './period.ts';

const HOUR_MS = 3_600_000;
/** How many days the numbers of accounts go back. */
const STATUS_DAYS = 60;
const STATUSES = ['active', 'dormant', 'suspended'] as const satisfies readonly UserStatus[];

const templatesOf = (rows: readonly { template_ids: string[] }[]) => [
  ...new Set(rows.flatMap(({ template_ids }) => template_ids)),
];

/** How long each person used their workspaces. */
export async function userActivity(ctx: Ctx, query: PeriodQuery): Promise<UserActivityInsightsResponse> {
  const scope = await insightsScope(ctx, query);
  const users = await usageByUser(ctx.lists, scope);
  const { from, to } = scope;
  return { report: { start_time: time(from), end_time: time(to), template_ids: templatesOf(users), users } };
}

/** The latency of each person's connections. */
export async function userLatency(ctx: Ctx, query: PeriodQuery): Promise<UserLatencyInsightsResponse> {
  const scope = await insightsScope(ctx, query);
  const rows = await latencyByUser(ctx.lists, scope);
  const users = rows.map(({ p50, p95, ...user }) => ({ ...user, latency_ms: { p50, p95 } }));
  const { from, to } = scope;
  return { report: { start_time: time(from), end_time: time(to), template_ids: templatesOf(users), users } };
}

/** The number of people who used any workspace, by day in a time zone `offset` hours east of UTC. */
export async function deploymentDaus(ctx: Ctx, offset = 0): Promise<DAUsResponse> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return { tz_hour_offset: offset, entries: await dailyActiveUsers(ctx.lists, null, offset) };
}

/** The number of accounts by status at the end of each day, in a time zone `offset` hours east of UTC. */
export async function userStatusCounts(ctx: Ctx, offset = 0): Promise<GetUserStatusCountsResponse> {
  authorize(ctx, 'read', { type: 'user' });
  const deltas = await statusDeltas(ctx.lists, offset);
  const shift = offset * HOUR_MS;
  const today = Math.floor((ctx.clock.now().getTime() + shift) / DAY_MS);
  const days = Array.from({ length: STATUS_DAYS + 1 }, (_, i) => (today - STATUS_DAYS + i) * DAY_MS);
  const status_counts = Object.fromEntries(
    STATUSES.map((status) => {
      const own = deltas.filter((each) => each.status === status);
      let count = 0;
      let next = 0;
      const counts = days.map((ms) => {
        const day = new Date(ms).toISOString().slice(0, 10);
        for (; next < own.length && own[next]!.day <= day; next++) count += own[next]!.delta;
        return { date: time(new Date(ms - shift)), count };
      });
      return [status, counts];
    }),
  );
  return { status_counts };
}
