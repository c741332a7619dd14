/**
 * Links of external apps, and the session token that some of them ask for. A link with a token signs in whatever opens
 * it, so only editors on the owner's computer get one, from an app that the template declares. The server decides: it
 * lists other links without the place for a token, because upstream's programs put one there themselves.
 */
import type { AppLink, AppLinkRequest } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { appsBySlug } from '../../db/queries/workspace-apps.ts';
import type { Ctx } from '../context/context.ts';
import { findReadableAgent } from '../find/agent.ts';
import { requireOwnerData } from '../owner-consent/owner-consent.ts';
import { createKey } from '../user/tokens.ts';
import { EDITOR_LINKS, isEditorLink } from './editor-link.ts';

/** The place for a session token in the link of an external app. */
const TOKEN_PLACE = '$SESSION_TOKEN';

/** An app as its link is judged. */
interface ListedApp {
  url: string | null;
  external: boolean;
}

/** Whether the link of an app has a place for a token, so that it matters who sees it. */
export const asksForToken = ({ url, external }: ListedApp): boolean => external && (url ?? '').includes(TOKEN_PLACE);

/**
 * The address of an app as the viewer sees it. It has a place for a token only if the viewer gets one for it: programs
 * of upstream fill the place themselves. `workspace`: undefined for agents of a template.
 */
export function listedUrl(
  app: ListedApp,
  workspace: { owner_id: string; of_sub_agent: boolean } | undefined,
  { actor, accessUrl }: Pick<Ctx, 'actor' | 'accessUrl'>,
): string {
  const url = app.url ?? '';
  if (!asksForToken(app)) return url;
  const isOwn = workspace !== undefined && actor.kind === 'user' && actor.id === workspace.owner_id;
  return isOwn && !workspace.of_sub_agent && isEditorLink(url, accessUrl) ? url : withoutPlace(url);
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
    new AppError('forbidden', `The server does not give a session token to the app ${JSON.stringify(app.slug)}.`, {
      detail: why,
    });
  if (app.of_sub_agent)
    throw refuse('A program in the workspace added the app. Only apps that the template declares get a token.');
  if (!isEditorLink(app.url, ctx.accessUrl)) {
    throw refuse(
      `Only links that open an editor with this server, ${ctx.accessUrl}, get a token: ${EDITOR_LINKS.join(', ')}.`,
    );
  }
  if (ctx.actor.kind !== 'user' || ctx.actor.id !== agent.owner_id) {
    throw refuse(`Only ${agent.owner_name}, who owns the workspace, can open it.`);
  }
  await requireOwnerData(ctx.sql, agent);
  const { key } = await createKey(ctx, 'me');
  return { url: app.url.replaceAll(TOKEN_PLACE, encodeURIComponent(key)) };
}
