import type { Replica } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { liveReplicas } from '../../db/queries/replicas.ts';
import type { Ctx } from '../context/context.ts';
import { time } from '../values/time.ts';

/** The servers that use the database, the one that started first first. */
export async function replicas(ctx: Ctx): Promise<Replica[]> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  const rows = await liveReplicas(ctx.sql);
  return rows.map((row) => ({
    id: row.id,
    hostname: row.hostname,
    created_at: time(row.started_at),
    relay_address: row.relay_address,
    region_id: PRIMARY_REGION_ID,
    error: row.problem,
    database_latency: row.database_latency_us,
  }));
}

/** Upstream's default number for the region of the server itself. */
const PRIMARY_REGION_ID = 999;
