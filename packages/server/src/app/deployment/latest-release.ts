import type { UpdateCheckResponse } from '@ropewalk/contract';
import { systemTask } from '../../authz/proofs.ts';
import { siteValue } from '../../db/queries/site.ts';
import { type Ctx, type Services, systemContext } from '../context/context.ts';
import { isNewer } from '../values/release-version.ts';

/** The latest release that was found, for all servers. */
export const RELEASE_KEY = 'latest_release';
const NONE = '{}';

export interface Release {
  version?: string;
  url?: string;
}

export const latestRelease = (services: Services): Promise<string> =>
  siteValue(services.sql, systemTask(systemContext(services, 'update check')), RELEASE_KEY, () => NONE);

/** Whether this server is current, as the last look at the releases found. Without --update-check it always is. */
export async function updateCheck(ctx: Ctx): Promise<UpdateCheckResponse> {
  const { config, version } = ctx;
  const current = { current: true, version, url: '' };
  if (!config.updateCheck) return current;
  const { version: latest, url = '' } = JSON.parse(await latestRelease(ctx)) as Release;
  return latest !== undefined && isNewer(latest, version) ? { current: false, version: latest, url } : current;
}
