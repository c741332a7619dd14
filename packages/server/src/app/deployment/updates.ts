import type { UpdateCheckResponse } from '@platform/contract';
import { AppError } from '@platform/kit';
import { systemTask } from '../../authz/proofs.ts';
import { replaceSiteValue, siteValue } from '../../db/queries/site.ts';
import type { BackgroundTask } from '../background-task.ts';
import { type Ctx, type Services, systemContext } from '../context.ts';
import { boundedFetch } from '../sign-in/fetch.ts';

const PERIOD_MS = 24 * 3_600_000;
/** The latest release that was found, for all servers. */
const KEY = 'latest_release';
const NONE = '{}';

interface Release {
  version?: string;
  url?: string;
}

const known = (services: Services): Promise<string> =>
  siteValue(services.sql, systemTask(systemContext(services, 'update check')), KEY, () => NONE);

/** The numbers of `v1.2.3`. Undefined for another text. */
function numbersOf(version: string): number[] | undefined {
  const found = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version);
  return found?.slice(1).map(Number);
}

/** Whether the first version is newer. */
export function isNewer(version: string, than: string): boolean {
  const [a, b] = [numbersOf(version), numbersOf(than)];
  if (!a || !b) return false;
  const at = a.findIndex((number, index) => number !== b[index]);
  return at >= 0 && a[at]! > b[at]!;
}

/** Whether this server is current, as the last look at the releases found. Without --update-check it always is. */
export async function updateCheck(ctx: Ctx): Promise<UpdateCheckResponse> {
  const { config, version } = ctx;
  const current = { current: true, version, url: '' };
  if (!config.updateCheck) return current;
  const { version: latest, url = '' } = JSON.parse(await known(ctx)) as Release;
  return latest !== undefined && isNewer(latest, version) ? { current: false, version: latest, url } : current;
}

/**
 * Looks for the latest release every day, and logs one that is newer.
 * @throws AppError `invalid` if --update-check has no URL
 */
export function updateCheckTask(services: Services): BackgroundTask[] {
  const { sql, config, log, version } = services;
  if (!config.updateCheck) return [];
  const from = config.updateCheckUrl;
  if (from === '') {
    throw new AppError('invalid', '--update-check needs --update-check-url: the address of your releases.');
  }
  return [
    {
      name: 'update check',
      periodMs: PERIOD_MS,
      needsLock: true,
      async run(signal) {
        const answer = await boundedFetch(from, { headers: { accept: 'application/json' }, signal });
        if (answer.status !== 200) throw new AppError('unavailable', `${from} answered with status ${answer.status}.`);
        const { tag_name: tag, html_url: url } = (await answer.json()) as { tag_name?: unknown; html_url?: unknown };
        if (typeof tag !== 'string' || !numbersOf(tag)) {
          throw new AppError('invalid', `${from} names no release: its tag_name must be a version such as v1.2.3.`);
        }
        const isLink = typeof url === 'string' && /^https?:\/\//.test(url);
        const found: Release = { version: tag, ...(isLink ? { url } : {}) };
        const by = systemTask(systemContext(services, 'update check'));
        await replaceSiteValue(sql, by, KEY, { from: await known(services), to: JSON.stringify(found) });
        if (isNewer(tag, version)) log.info('a newer release is available', { version: tag, url: found.url });
        return undefined;
      },
    },
  ];
}
