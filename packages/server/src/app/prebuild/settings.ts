import type { PrebuildsSettings } from '@platform/contract';
import { authorize } from '../../authz/authorize.ts';
import { systemTask } from '../../authz/proofs.ts';
import { setSiteValue, siteValue } from '../../db/queries/site.ts';
import { audit } from '../audit.ts';
import { type Ctx, type Services, systemContext } from '../context.ts';

const KEY = 'prebuilds_settings';
const DEFAULT: PrebuildsSettings = { reconciliation_paused: false };

async function stored(services: Services): Promise<PrebuildsSettings> {
  const by = systemTask(systemContext(services, 'prebuilds settings'));
  const text = await siteValue(services.sql, by, KEY, () => JSON.stringify(DEFAULT));
  return { ...DEFAULT, ...(JSON.parse(text) as Partial<PrebuildsSettings>) };
}

/** Whether the server leaves all pools as they are. */
export const arePoolsPaused = async (services: Services): Promise<boolean> =>
  (await stored(services)).reconciliation_paused;

export async function getPrebuildsSettings(ctx: Ctx): Promise<PrebuildsSettings> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return stored(ctx);
}

/** Pauses or resumes all pools. People can claim ready workspaces meanwhile. */
export async function updatePrebuildsSettings(ctx: Ctx, input: PrebuildsSettings): Promise<PrebuildsSettings> {
  const by = authorize(ctx, 'update', { type: 'deployment_config' });
  const before = await stored(ctx);
  const after = { reconciliation_paused: input.reconciliation_paused };
  if (before.reconciliation_paused === after.reconciliation_paused) return after;
  await ctx.sql.begin(async (tx) => {
    await setSiteValue(tx, by, KEY, JSON.stringify(after));
    await audit(ctx, tx, {
      resourceType: 'prebuilds_settings',
      resourceId: ctx.deploymentId,
      target: '',
      action: 'write',
      before,
      after,
    });
    await ctx.events.publish(tx, 'object_changed', { kind: 'deployment', id: 'prebuilds' });
  });
  return after;
}
