import type { PrebuildPool, TemplatePrebuilds } from '@ropewalk/contract';
import { type PoolRow, type PrebuildRow, pools, prebuilds } from '../../db/queries/prebuilds.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';
import { time } from '../values/time.ts';
import { backoffUntil, decidePool, nextChange, type PoolRules, phaseOf } from './decide.ts';
import { lookbackFrom, poolRules } from './reconcile.ts';
import { arePoolsPaused } from './settings.ts';

/** The pools of a template. Those of older versions are there until their last workspace is deleted. */
export async function getPools(ctx: Ctx, templateId: string): Promise<TemplatePrebuilds> {
  const template = await findTemplate(ctx, 'read', templateId);
  const [paused, rows, workspaces] = await Promise.all([
    arePoolsPaused(ctx),
    pools(ctx.sql, lookbackFrom(ctx), template.id),
    prebuilds(ctx.sql, template.id),
  ]);
  const byPreset = Map.groupBy(workspaces, (one) => one.preset_id);
  const now = ctx.clock.now();
  return { paused, pools: rows.map((row) => toPool(row, byPreset.get(row.id) ?? [], poolRules(ctx), now)) };
}

function toPool(row: PoolRow, workspaces: PrebuildRow[], rules: PoolRules, now: Date): PrebuildPool {
  const { desired, limited, create } = decidePool(row, workspaces, rules, now);
  const count = (fits: (one: PrebuildRow) => boolean) => workspaces.filter(fits).length;
  const change = nextChange(row, now);
  const attempt = backoffUntil(row, rules);
  const waits = create === 0 && !limited && row.is_current && attempt > now.getTime();
  return {
    preset_id: row.id,
    preset_name: row.name,
    template_version_name: row.version_name,
    desired,
    ready: count(({ ready }) => ready),
    starting: count((one) => ['waiting', 'starting', 'running'].includes(phaseOf(one)) && !one.ready),
    failed: count((one) => phaseOf(one) === 'failed'),
    stopped: count(({ transition, job_status: status }) => transition === 'stop' && status === 'succeeded'),
    limit_reached: limited && row.is_current,
    ...(change ? { next_change: { at: time(change.at), desired: change.instances } } : {}),
    ...(row.error ? { error: row.error } : {}),
    ...(waits ? { next_attempt_at: time(new Date(attempt)) } : {}),
  };
}
