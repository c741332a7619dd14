// Sessions and terminals at workspace proxies. A browser has no session there: it brings one back from the server, sealed for
// the host of the proxy or of the app, so that the proxy stores what it cannot read.
import type {
  IssueReconnectingPTYSignedTokenRequest,
  RedeemSignInRequest,
  RedeemSignInResponse,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { allWorkspaceProxies } from '../../db/queries/workspace-proxies.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import type { AppTokens } from '../context/sealed-tokens.ts';
import { hostName, parseAppHost, parseWildcard } from '../values/app-address.ts';
import { splitToken } from '../values/token.ts';
import { openSession, redeemHandover } from '../workspace-app/sign-in.ts';
import { proxyOf } from './credential.ts';
import type { ProxyKeys } from './keys.ts';
import { grantTerminal } from './rights.ts';

/** The host for which a session at the proxy is sealed: that of a subdomain app, or the proxy's for everything with a path. */
export const sessionHost = (proxy: WorkspaceProxyRow, { kind, base }: { kind: string; base: string }): string =>
  kind === 'subdomain' ? base : hostName(new URL(proxy.url).host);

/** The session token that a proxy sent for a visitor: as it is, or sealed for this host. Empty if it is neither. */
export function sessionToken(tokens: AppTokens, host: string, text = ''): string {
  return splitToken(text) ? text : (openSession(tokens, host, text) ?? '');
}

/**
 * Exchanges the handover that a browser brought to the proxy for a session, which is sealed for the host.
 * @param ip of the visitor
 * @throws AppError `invalid` for a host of somebody else, `unauthenticated` if the handover is not valid (any more)
 */
export async function redeemAtProxy(
  ctx: Ctx,
  tokens: AppTokens,
  ip: string,
  { host, handover }: RedeemSignInRequest,
): Promise<RedeemSignInResponse> {
  const proxy = proxyOf(ctx);
  const wildcard = parseWildcard(proxy.wildcard_hostname);
  const isOwn =
    proxy.url !== '' &&
    (hostName(host) === hostName(new URL(proxy.url).host) || (wildcard && parseAppHost(wildcard, host)));
  if (!isOwn) {
    const detail = 'must be the host of the proxy or of an app there';
    throw new AppError('invalid', 'Invalid host.', {
      detail: `host ${detail}`,
      validations: [{ field: 'host', detail }],
    });
  }
  const made = await redeemHandover(ctx, tokens, { host, text: handover, ip });
  return { session: made.sealed, lifetime_ms: Math.floor(made.lifetimeMs) };
}

/**
 * The token with which the actor opens a terminal at a proxy, for pages that cannot send headers. Undefined if the URL is
 * not one of a proxy.
 */
export async function issueTerminalToken(
  ctx: Ctx,
  keys: ProxyKeys,
  { url: text, agentID: agentId }: IssueReconnectingPTYSignedTokenRequest,
): Promise<{ signed_token: string } | undefined> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const base = `/api/v2/workspaceagents/${agentId.toLowerCase()}/pty`;
  if (url?.pathname.toLowerCase() !== base) return undefined;
  const origin = `${url.protocol.replace('ws', 'http')}//${url.host}`;
  const proxy = (await allWorkspaceProxies(ctx.sql)).find((one) => one.url === origin && !one.derp_only);
  if (!proxy) return undefined;
  const grant = await grantTerminal(ctx, ctx.actor, { agentId, base });
  return { signed_token: keys.sign(proxy.id, grant, ctx.clock.now()) };
}
