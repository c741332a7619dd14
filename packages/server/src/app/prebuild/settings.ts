import type { PrebuildsSettings } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { siteSettings } from '../audit-entries/site-settings.ts';
import type { Ctx, Services } from '../context/context.ts';

const settings = siteSettings<PrebuildsSettings>({
  key: 'prebuilds_settings',
  resourceType: 'prebuilds_settings',
  initial: { reconciliation_paused: false },
  change: 'prebuilds',
});

/** Whether the server leaves all pools as they are. */
export const arePoolsPaused = async (services: Services): Promise<boolean> =>
  (await settings.read(services)).reconciliation_paused;

export async function getPrebuildsSettings(ctx: Ctx): Promise<PrebuildsSettings> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return settings.read(ctx);
}

/** Pauses or resumes all pools. People can claim ready workspaces meanwhile. */
export async function updatePrebuildsSettings(
  ctx: Ctx,
  { reconciliation_paused }: PrebuildsSettings,
): Promise<PrebuildsSettings> {
  await settings.replace(ctx, { reconciliation_paused });
  return { reconciliation_paused };
}
