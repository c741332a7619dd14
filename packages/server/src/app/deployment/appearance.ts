import type { AppearanceConfig, BannerConfig, LinkConfig, UpdateAppearanceConfig } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import { anyTemplateHasTasks } from '../../db/queries/templates.ts';
import { siteSettings } from '../audit-entries/site-settings.ts';
import type { Ctx } from '../context/context.ts';

const LONGEST_NAME = 64;
const LONGEST_MESSAGE = 4_096;

/** The part of the appearance that people set. Everything else comes from options. */
interface StoredAppearance {
  application_name: string;
  logo_url: string;
  announcement_banners: BannerConfig[];
}

const settings = siteSettings<StoredAppearance>({
  key: 'appearance',
  resourceType: 'appearance',
  initial: { application_name: '', logo_url: '', announcement_banners: [] },
  change: 'appearance',
});

/** The service banner is upstream's older name of the first announcement banner. */
const serviceBanner = ([first]: readonly BannerConfig[]): BannerConfig => first ?? { enabled: false };

/**
 * The name, logo and banners that every page shows, and the links of its help menu. Without a session, only what the
 * sign-in page shows: banners and links can be internal.
 */
export async function getAppearance(ctx: Ctx): Promise<AppearanceConfig> {
  const { supportLinks, docsUrl } = ctx.config;
  const found = await settings.read(ctx);
  if (ctx.actor.kind === 'none') {
    const { application_name, logo_url } = found;
    const hidden = { announcement_banners: [], service_banner: serviceBanner([]), support_links: [] };
    const tasks_visible = false;
    return { application_name, logo_url, docs_url: docsUrl, tasks_visible, ...hidden };
  }
  return {
    ...found,
    service_banner: serviceBanner(found.announcement_banners),
    tasks_visible: !ctx.config.hideAiTasks && (await anyTemplateHasTasks(ctx.sql)),
    docs_url: docsUrl,
    support_links: Array.isArray(supportLinks) ? (supportLinks as LinkConfig[]) : [],
  };
}

const invalid = (field: string, detail: string) =>
  new AppError('invalid', `Invalid ${field}.`, { validations: [{ field, detail }] });

function checkBanner({ message = '', background_color: color = '' }: BannerConfig, field: string): void {
  if (message.length > LONGEST_MESSAGE) {
    throw invalid(`${field}.message`, `must be at most ${LONGEST_MESSAGE} characters long`);
  }
  if (color !== '' && !/^#[0-9a-f]{6}$/i.test(color)) {
    throw invalid(`${field}.background_color`, 'must be a color like #004852');
  }
}

function checkLogo(url: string): void {
  // a path of this server, or an address of another one
  if (url === '' || /^\/(?!\/)/.test(url)) return;
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:') {
    throw invalid('logo_url', 'must be a URL that starts with https://, or a path like /icon/coder.svg');
  }
}

/** Replaces name, logo and banners. Every open page shows them within a second. */
export async function updateAppearance(ctx: Ctx, input: UpdateAppearanceConfig): Promise<UpdateAppearanceConfig> {
  authorize(ctx, 'update', { type: 'deployment_config' });
  const { application_name = '', logo_url = '', announcement_banners, service_banner } = input;
  if (application_name.length > LONGEST_NAME) {
    throw invalid('application_name', `must be at most ${LONGEST_NAME} characters long`);
  }
  checkLogo(logo_url);
  const banners = announcement_banners ?? (service_banner ? [service_banner] : []);
  for (const [i, banner] of banners.entries()) checkBanner(banner, `announcement_banners[${i}]`);
  const value: StoredAppearance = { application_name, logo_url, announcement_banners: banners };
  await settings.replace(ctx, value, { target: application_name });
  return { ...value, service_banner: serviceBanner(banners) };
}
