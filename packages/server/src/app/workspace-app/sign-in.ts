import type { IssueReconnectingPTYSignedTokenRequest } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import { verifiedSignIn } from '../../authz/proofs.ts';
import { isFull } from '../../authz/scope.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { apiKeyById, insertApiKey, isSession } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import { allWorkspaceProxies } from '../../db/queries/workspace-proxies.ts';
import type { Ctx, Services } from '../context/context.ts';
import type { AppTokens } from '../context/sealed-tokens.ts';
import { actorOf } from '../context/session.ts';
import { findReadableAgent } from '../find/agent.ts';
import { workspaceObject } from '../find/workspace.ts';
import {
  hostName,
  isPathAppTarget,
  parseAppHost,
  parseWildcard,
  SIGN_IN_PARAMETER,
  subdomainOrigin,
  wildcardLabel,
} from '../values/app-address.ts';
import { randomText, sha256 } from '../values/token.ts';

const HANDOVER_MS = 60_000;

interface Handover {
  key: string;
  user: string;
  /** The id of the token to create. A second token with this id is rejected, so each handover works once. */
  id: string;
  expires: number;
}

/** Where the browser goes after sign-in: `redirect_uri` with a handover that is valid for its host only. */
export async function redirectToApp(ctx: Ctx, tokens: AppTokens, redirectUri: string | undefined): Promise<string> {
  const { actor } = ctx;
  // a limited token must not create one for all apps
  if (actor.kind !== 'user' || !isFull(actor.scope)) {
    throw new AppError('unauthenticated', 'Sign in to open this app.');
  }
  if (!redirectUri || !URL.canParse(redirectUri)) throw foreign('It must be a URL.');
  const url = new URL(redirectUri);
  if (!(await isAtProxy(ctx, url))) checkAtServer(ctx, url);
  const handover: Handover = {
    key: actor.apiKeyId,
    user: actor.id,
    id: randomText(10),
    expires: ctx.clock.now().getTime() + HANDOVER_MS,
  };
  url.searchParams.set(SIGN_IN_PARAMETER, tokens.seal(purpose(url.host), handover));
  return url.href;
}

const foreign = (detail: string) =>
  new AppError('invalid', 'The redirect_uri does not belong to an app of this server.', {
    validations: [{ field: 'redirect_uri', detail }],
  });

/** @throws AppError `invalid` unless it is the URL of an app on its own host at this server */
function checkAtServer({ config, accessUrl }: Ctx, url: URL): void {
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  if (!wildcard) throw foreign('This server has no host names for apps. Set --wildcard-access-url.');
  const label = wildcardLabel(wildcard, url.host);
  if (label === undefined || !parseAppHost(wildcard, url.host) || url.username || url.password) {
    throw foreign(`${url.host} is not the host of an app.`);
  }
  const { origin } = new URL(subdomainOrigin(wildcard, accessUrl, label));
  if (url.origin !== origin) throw foreign(`Apps are at ${origin}, not at ${url.origin}.`);
}

/** Whether it is the URL of an app at a workspace proxy. Path apps there need a session, too. */
async function isAtProxy({ sql }: Ctx, url: URL): Promise<boolean> {
  if (url.username || url.password) return false;
  const proxies = await allWorkspaceProxies(sql);
  return proxies.some(({ url: origin, wildcard_hostname: pattern, derp_only: isRelay }) => {
    if (origin === '' || isRelay) return false;
    if (url.origin === origin) return isPathAppTarget(url.pathname);
    const wildcard = parseWildcard(pattern);
    const label = wildcard && parseAppHost(wildcard, url.host) && wildcardLabel(wildcard, url.host);
    return label !== undefined && url.origin === new URL(subdomainOrigin(wildcard!, origin, label)).origin;
  });
}

const purpose = (host: string) => `sign-in ${hostName(host)}`;

const sessionOf = (host: string) => `session ${hostName(host)}`;

/** The token in a value from redeemHandover for this host. Undefined for any other text. */
export function openSession(tokens: AppTokens, host: string, sealed: string | undefined): string | undefined {
  return sealed === undefined ? undefined : tokens.unseal<{ token: string }>(sessionOf(host), sealed)?.token;
}

/**
 * Exchanges a handover from redirectToApp for a session, once. The session is valid for apps only and sealed for its
 * host. A service worker of an app may read the handover from the address and redeem it elsewhere, but the session
 * reaches only that same app.
 * @throws AppError `unauthenticated` when the handover is for another host, expired, used, or its session has ended
 */
export async function redeemHandover(
  services: Services,
  tokens: AppTokens,
  { host, text, ip }: { host: string; text: string; ip: string },
): Promise<{ sealed: string; lifetimeMs: number }> {
  const failed = (detail: string) => new AppError('unauthenticated', 'The sign-in to this app failed.', { detail });
  const { sql, clock, config } = services;
  const handover = tokens.unseal<Handover>(purpose(host), text);
  if (!handover) throw failed('This sign-in link is for another address, or it was modified. Open the app again.');
  const now = clock.now().getTime();
  if (handover.expires <= now) throw failed('This sign-in link has expired. Open the app again.');
  const [parent, user] = await Promise.all([apiKeyById(sql, handover.key), userById(sql, handover.user)]);
  if (!parent || !user || user.status === 'suspended' || parent.expires_at.getTime() <= now) {
    throw failed('The original session has ended. Open the app again.');
  }
  const secret = randomText(22);
  // it never lives longer than the original session
  const expires = Math.min(parent.expires_at.getTime(), now + config.sessionDuration);
  try {
    await insertApiKey(sql, verifiedSignIn({ userId: user.id }), {
      id: handover.id,
      hashed_secret: sha256(secret),
      token_name: '',
      // names of API tokens are unique, and this one has no name
      login_type: isSession(parent) ? parent.login_type : 'none',
      scope: 'application_connect',
      lifetime_seconds: Math.floor((expires - now) / 1000),
      ip_address: ip,
      expires_at: new Date(expires),
      parent_id: parent.id,
    });
  } catch (err) {
    if (isPgError(err, UNIQUE_VIOLATION)) throw failed('This sign-in link was already used. Open the app again.');
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

/** Issues a pass for the web terminal of one agent, for pages that cannot send headers. Valid for a minute. */
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
      validations: [{ field: 'url', detail: `must have the path /api/v2/workspaceagents/${agent.id}/pty` }],
    });
  }
  if (ctx.actor.kind !== 'user') throw new AppError('unauthenticated', 'Sign in to open a terminal.');
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
  return actorOf(user, key, services.config);
}
