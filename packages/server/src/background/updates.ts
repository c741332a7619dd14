import { AppError } from '@ropewalk/kit';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { latestRelease, RELEASE_KEY, type Release } from '../app/deployment/latest-release.ts';
import { boundedFetch } from '../app/outbound/fetch.ts';
import { isNewer, numbersOf } from '../app/values/release-version.ts';
import { systemTask } from '../authz/proofs.ts';
import { replaceSiteValue } from '../db/queries/site.ts';

const PERIOD_MS = 24 * 3_600_000;
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
        await replaceSiteValue(sql, by, RELEASE_KEY, {
          from: await latestRelease(services),
          to: JSON.stringify(found),
        });
        if (isNewer(tag, version)) log.info('a newer release is available', { version: tag, url: found.url });
        return undefined;
      },
    },
  ];
}
