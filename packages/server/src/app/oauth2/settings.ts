import type { OAuth2ProviderSettings } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { siteSettings } from '../audit-entries/site-settings.ts';
import type { Ctx, Services } from '../context/context.ts';

const settings = siteSettings<Required<OAuth2ProviderSettings>>({
  key: 'oauth2_provider_settings',
  resourceType: 'oauth2_provider_settings',
  initial: { dynamic_client_registration_enabled: false },
});

/** Whether apps may register themselves. */
export const isRegistrationOpen = async (services: Services): Promise<boolean> =>
  (await settings.read(services)).dynamic_client_registration_enabled;

export async function getOAuth2Settings(ctx: Ctx): Promise<OAuth2ProviderSettings> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return settings.read(ctx);
}

/** Changes the settings that the request names. Apps that have registered stay. */
export async function updateOAuth2Settings(
  ctx: Ctx,
  { dynamic_client_registration_enabled: enabled }: OAuth2ProviderSettings,
): Promise<OAuth2ProviderSettings> {
  authorize(ctx, 'update', { type: 'deployment_config' });
  const before = await settings.read(ctx);
  const after = { dynamic_client_registration_enabled: enabled ?? before.dynamic_client_registration_enabled };
  await settings.replace(ctx, after);
  return after;
}
