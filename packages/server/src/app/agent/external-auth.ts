/** Tokens of external auth providers for the processes in a workspace, such as Git. */

import type { AgentExternalAuthResponse, RouteQuery } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { compile } from '@ropewalk/kit/re2';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { ExternalAuthProvider } from '../../config/external-auth.ts';
import { type ExternalAuthLinkRow, externalAuthLink } from '../../db/queries/external-auth-links.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { connectUrl, extraFields, findProvider, validLink } from '../external-auth/links.ts';
import { createWakeUp } from '../follow/wake-up.ts';
import { requireOwnerData } from '../owner-consent/owner-consent.ts';
import { NEVER, time } from '../values/time.ts';

/** How long a listening request waits for the owner, in ms. Clients ask again. */
const LISTEN_MS = 5 * 60_000;
const LOOK_AGAIN_MS = 5_000;
/** The longest text of a request that is matched. */
const MAX_CHARACTERS = 4_096;

/** Finds the provider with this id, or the first whose expression matches the URL of a repository. */
function requestedProvider(ctx: Ctx, { match, id }: { match?: string; id?: string }): ExternalAuthProvider {
  if (!match && !id) throw new AppError('invalid', "'match' or 'id' must be provided as query parameters!");
  const asked = (id || match)!;
  if (asked.length > MAX_CHARACTERS) throw new AppError('invalid', "'match' or 'id' is too long.");
  const found = id
    ? findProvider(ctx, id)
    : ctx.config.externalAuth.find(({ regex }) => regex !== '' && compile(regex).test(asked));
  if (found) return found;
  throw new AppError('not_found', 'No matching external auth provider was found.', {
    detail:
      `The agent asked for ${JSON.stringify(asked)}. ` +
      'An administrator configures providers with CODER_EXTERNAL_AUTH_0_ID and the variables next to it.',
  });
}

/** How Git sends the token differs by host. Hosts that are not listed take it as the user name. */
function credentials({ type }: ExternalAuthProvider, token: string): { username: string; password: string } {
  switch (type) {
    case 'gitlab':
      return { username: 'oauth2', password: token };
    case 'bitbucket-cloud':
    case 'bitbucket-server':
      return { username: 'x-token-auth', password: token };
    default:
      return { username: token, password: '' };
  }
}

function answerFor(
  ctx: Pick<Ctx, 'vault'>,
  provider: ExternalAuthProvider,
  link: ExternalAuthLinkRow,
): AgentExternalAuthResponse {
  const token = ctx.vault.open(link.access_token);
  return {
    access_token: token,
    expires_at: link.expires_at ? time(link.expires_at) : NEVER,
    token_extra: extraFields(ctx, link),
    url: '',
    type: provider.type,
    ...credentials(provider, token),
  };
}

/**
 * The token of the workspace owner's account, or the URL where the owner connects it. With `listen`, waits for the token.
 * `self` finds the agent of the request.
 * @throws AppError `not_found` if no provider matches, `forbidden` for an agent without access to the owner's data
 */
export async function agentExternalAuth(
  ctx: Ctx,
  self: () => Promise<ConnectedAgent<AgentIdentity>>,
  query: RouteQuery<'GET /workspaceagents/me/external-auth'>,
): Promise<AgentExternalAuthResponse> {
  const agent = await self();
  await requireOwnerData(ctx.sql, agent);
  const provider = requestedProvider(ctx, query);
  const ready = async (): Promise<AgentExternalAuthResponse | undefined> => {
    const link = await externalAuthLink(ctx.sql, agent.owner_id, provider.id);
    const state = link && (await validLink(ctx, provider, link));
    return state && state.problem === undefined ? answerFor(ctx, provider, state.link) : undefined;
  };
  const { wake, wait } = createWakeUp();
  const until = ctx.clock.now().getTime() + LISTEN_MS;
  // from before the first look, so that no change is missed
  const off = query.listen
    ? ctx.events.on('object_changed', ({ kind, id }) => kind === 'user' && id === agent.owner_id && wake())
    : () => {};
  ctx.signal.addEventListener('abort', wake);
  try {
    for (;;) {
      const answer = await ready();
      if (answer) return answer;
      if (!query.listen) break;
      await wait(LOOK_AGAIN_MS);
      ctx.signal.throwIfAborted();
      // its workspace may have been stopped meanwhile
      await self();
      if (ctx.clock.now().getTime() > until) {
        const why = `${agent.owner_name} has not connected a ${provider.display_name} account yet.`;
        throw new AppError('timeout', `${why} Connect it in the dashboard, then try again.`);
      }
    }
  } finally {
    off();
    ctx.signal.removeEventListener('abort', wake);
  }
  return {
    access_token: '',
    expires_at: NEVER,
    token_extra: {},
    url: connectUrl(ctx, provider),
    type: provider.type,
    username: '',
    password: '',
  };
}
