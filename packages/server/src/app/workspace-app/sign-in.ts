import type { IssueReconnectingPTYSignedTokenRequest } from '@platform/contract';
import { AppError } from '@platform/kit';
import type { Actor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import { verifiedSignIn } from '../../authz/proofs.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { apiKeyById, insertApiKey } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import { findReadableAgent } from '../agent/find.ts';
import type { Ctx, Services } from '../context.ts';
import { actorOf } from '../session.ts';
import { randomText, sha256 } from '../token.ts';
import { workspaceObject } from '../workspace/find.ts';
import { hostName, parseAppHost, parseWildcard, subdomainOrigin, wildcardLabel } from './address.ts';
import type { AppTokens } from './tokens.ts';

/** The query parameter that carries a session over to an app's own host, by its published name. */
export const SIGN_IN_PARAMETER = 'coder_application_connect_api_key_35e783';
const HANDOVER_MS = 60_000;

interface Handover {
  key: string;
  user: string;
  /** Id of the token to be made: made twice it is refused, so that each handover serves once. */
  id: string;
  expires: number;
}

/** Where a signed-in browser goes on to, from `redirect_uri` with a handover for its host alone. */
export function redirectToApp(ctx: Ctx, tokens: AppTokens, redirectUri: string | undefined): string {
  const refuse = (detail: string) =>
    new AppError('invalid', 'The redirect_uri is not of an app of this server.', {
      validations: [{ field: 'redirect_uri', detail }],
    });
  const { actor, config } = ctx;
  // what is good for apps alone makes no more of its kind: it would outlive the session that it comes from
  if (actor.kind !== 'user' || actor.scope !== 'all') {
    throw new AppError('unauthenticated', 'Sign in to open this app.');
  }
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  if (!wildcard) throw refuse('Apps have no hosts of their own here (--wildcard-access-url).');
  if (!redirectUri || !URL.canParse(redirectUri)) throw refuse('It must be a URL.');
  const url = new URL(redirectUri);
  const label = wildcardLabel(wildcard, url.host);
  if (label === undefined || !parseAppHost(wildcard, url.host) || url.username || url.password) {
    throw refuse(`${url.host} is not the host of an app.`);
  }
  if (url.origin !== new URL(subdomainOrigin(wildcard, ctx.accessUrl, label)).origin) {
    throw refuse(`Apps are at ${subdomainOrigin(wildcard, ctx.accessUrl, label)}, not at ${url.origin}.`);
  }
  const handover: Handover = {
    key: actor.apiKeyId,
    user: actor.id,
    id: randomText(10),
    expires: ctx.clock.now().getTime() + HANDOVER_MS,
  };
  url.searchParams.set(SIGN_IN_PARAMETER, tokens.seal(purpose(url.host), handover));
  return url.href;
}

const purpose = (host: string) => `sign-in ${hostName(host)}`;

const sessionOf = (host: string) => `session ${hostName(host)}`;

/** The token behind what redeemHandover gave for this host; undefined for any other text. */
export function openSession(tokens: AppTokens, host: string, sealed: string | undefined): string | undefined {
  return sealed === undefined ? undefined : tokens.unseal<{ token: string }>(sessionOf(host), sealed)?.token;
}

/**
 * Makes a session of what redirectToApp gave, once, good for apps alone. It is sealed for its host: a service worker of
 * an app may read the handover from the address and redeem it elsewhere, but comes no further with it than to itself.
 * @throws AppError `unauthenticated` where it is of another host, old, used, or of a session that ended.
 */
export async function redeemHandover(
  services: Services,
  tokens: AppTokens,
  { host, text, ip }: { host: string; text: string; ip: string },
): Promise<{ sealed: string; lifetimeMs: number }> {
  const refuse = (detail: string) =>
    new AppError('unauthenticated', 'The sign-in to this app did not work.', { detail });
  const { sql, clock, config } = services;
  const handover = tokens.unseal<Handover>(purpose(host), text);
  if (!handover) throw refuse('It was meant for another address, or was changed. Open the app again.');
  const now = clock.now().getTime();
  if (handover.expires <= now) throw refuse('It took too long. Open the app again.');
  const [parent, user] = await Promise.all([apiKeyById(sql, handover.key), userById(sql, handover.user)]);
  if (!parent || !user || user.status === 'suspended' || parent.expires_at.getTime() <= now) {
    throw refuse('The session it was made of has ended. Open the app again.');
  }
  const secret = randomText(22);
  // it never begins with a longer life than what it was made of
  const expires = Math.min(parent.expires_at.getTime(), now + config.sessionDuration);
  try {
    await insertApiKey(sql, verifiedSignIn({ userId: user.id }), {
      id: handover.id,
      hashed_secret: sha256(secret),
      token_name: '',
      // names of API tokens are unique; this one has none
      login_type: parent.login_type === 'token' ? 'none' : parent.login_type,
      scope: 'application_connect',
      lifetime_seconds: Math.floor((expires - now) / 1000),
      ip_address: ip,
      expires_at: new Date(expires),
      parent_id: parent.id,
    });
  } catch (err) {
    if (isPgError(err, UNIQUE_VIOLATION)) throw refuse('It was used before. Open the app again.');
    throw err;
  }
  const lifetimeMs = expires - now;
  return { sealed: tokens.seal(sessionOf(host), { token: `${handover.id}-${secret}` }), lifetimeMs };
}

interface TerminalPass {
  key: string;
  user: string;
  expires: number;
}

const terminal = (agentId: string) => `terminal ${agentId.toLowerCase()}`;

/** A pass for the web terminal of one agent, for pages that can send no header: a minute long. */
export async function issueTerminalPass(
  ctx: Ctx,
  tokens: AppTokens,
  input: IssueReconnectingPTYSignedTokenRequest,
): Promise<{ signed_token: string }> {
  const agent = await findReadableAgent(ctx, input.agentID);
  authorize(ctx, 'ssh', workspaceObject(agent));
  const url = URL.canParse(input.url) ? new URL(input.url) : undefined;
  if (url?.pathname !== `/api/v2/workspaceagents/${agent.id}/pty` || !/^wss?:$|^https?:$/.test(url.protocol)) {
    throw new AppError('invalid', 'Invalid URL.', {
      validations: [{ field: 'url', detail: "It must be of this agent's pty." }],
    });
  }
  if (ctx.actor.kind !== 'user') throw new AppError('unauthenticated', 'Sign in first.');
  const pass: TerminalPass = {
    key: ctx.actor.apiKeyId,
    user: ctx.actor.id,
    expires: ctx.clock.now().getTime() + HANDOVER_MS,
  };
  return { signed_token: tokens.seal(terminal(agent.id), pass) };
}

/** The person with this pass for the agent's terminal. Undefined if the pass or the session behind it has expired. */
export async function actorOfTerminalPass(
  services: Services,
  tokens: AppTokens,
  agentId: string,
  text: string,
): Promise<Actor | undefined> {
  const { sql, clock } = services;
  const pass = tokens.unseal<TerminalPass>(terminal(agentId), text);
  if (!pass || pass.expires <= clock.now().getTime()) return undefined;
  const [key, user] = await Promise.all([apiKeyById(sql, pass.key), userById(sql, pass.user)]);
  if (!key || key.user_id !== user?.id || key.expires_at <= clock.now()) return undefined;
  if (user.status === 'suspended') return undefined;
  return actorOf(user, key);
}
