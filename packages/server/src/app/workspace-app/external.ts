/**
 * Links of external apps, and the session token that some of them ask for. A link with a token signs in whatever opens
 * it, so only editors on the owner's computer get one, from an app that the template declares. The server decides: it
 * lists other links without the place for a token, because upstream's programs put one there themselves.
 */
import type { AppLink, AppLinkRequest } from '@platform/contract';
import { AppError } from '@platform/kit';
import { appsBySlug } from '../../db/queries/workspace-apps.ts';
import { findReadableAgent } from '../agent/find.ts';
import type { Ctx } from '../context.ts';
import { requireOwnerData } from '../job/owner-consent.ts';
import { createKey } from '../user/tokens.ts';

/** The place for a session token in the link of an external app. */
const TOKEN_PLACE = '$SESSION_TOKEN';

/** The schemes of editors that sign in with a token from a link: upstream's list, and Zed. */
const EDITOR_SCHEMES: ReadonlySet<string> = new Set([
  'antigravity:',
  'cursor:',
  'jetbrains-gateway:',
  'jetbrains:',
  'kiro:',
  'positron:',
  'vscode-insiders:',
  'vscode:',
  'windsurf:',
  'zed:',
]);

/** Whether a link may contain a token: it opens an editor. */
const opensEditor = (url: string): boolean => URL.canParse(url) && EDITOR_SCHEMES.has(new URL(url).protocol);

/** The address of an app as people see it. It has a place for a token only if the app may get one. */
export function listedUrl(app: { url: string | null; external: boolean }, agent: { parent_id: string | null }): string {
  const url = app.url ?? '';
  if (!app.external || !url.includes(TOKEN_PLACE)) return url;
  return agent.parent_id === null && opensEditor(url) ? url : withoutPlace(url);
}

/**
 * A link without the place for a token. Removing the inner one of `$SESSION$SESSION_TOKEN_TOKEN` leaves another. Such a link
 * has no honest use, and loses its dollar signs.
 */
const withoutPlace = (url: string): string => {
  const shorter = url.replaceAll(TOKEN_PLACE, '');
  return shorter.includes(TOKEN_PLACE) ? shorter.replaceAll('$', '') : shorter;
};

/**
 * The address that opens an external app, with a new session token of the caller where the template asks for one.
 * @throws AppError `not_found` without such an app, `forbidden` if it asks for a token that it may not get
 */
export async function openExternalApp(ctx: Ctx, agentId: string, { slug }: AppLinkRequest): Promise<AppLink> {
  const agent = await findReadableAgent(ctx, agentId);
  const [app] = await appsBySlug(ctx.sql, [agent.id], slug);
  if (!app?.external || !app.url) {
    throw new AppError('not_found', `The agent has no external app ${JSON.stringify(slug)}.`);
  }
  if (!app.url.includes(TOKEN_PLACE)) return { url: app.url };
  const refuse = (why: string) =>
    new AppError('forbidden', `The app ${JSON.stringify(app.slug)} asks for a session token, and does not get one.`, {
      detail: why,
    });
  if (app.of_sub_agent) throw refuse('The workspace has added the app. Only apps of the template get a token.');
  if (!opensEditor(app.url)) {
    const schemes = [...EDITOR_SCHEMES].map((scheme) => `${scheme}//`).join(', ');
    throw refuse(`Only links that open an editor get a token: ${schemes}.`);
  }
  if (ctx.actor.kind !== 'user' || ctx.actor.id !== agent.owner_id) {
    throw refuse(`Only ${agent.owner_name}, who owns the workspace, can open it.`);
  }
  await requireOwnerData(ctx.sql, agent);
  const { key } = await createKey(ctx, 'me');
  return { url: app.url.replaceAll(TOKEN_PLACE, encodeURIComponent(key)) };
}
