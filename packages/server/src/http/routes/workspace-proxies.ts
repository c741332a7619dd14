import { isIP } from 'node:net';
import { VISITOR_HEADER } from '@ropewalk/wire/proxy-link';
import type { Ctx } from '../../app/context/context.ts';
import { type AppTokenParts, cryptoKeys, issueAppToken, reportAppStats } from '../../app/workspace-proxy/app-token.ts';
import type { ProxyHealth } from '../../app/workspace-proxy/health.ts';
import { getWorkspaceProxy, listWorkspaceProxies, regions } from '../../app/workspace-proxy/read.ts';
import { deregisterProxy, registerProxy } from '../../app/workspace-proxy/register.ts';
import { redeemAtProxy } from '../../app/workspace-proxy/sign-in.ts';
import { createWorkspaceProxy, deleteWorkspaceProxy, updateWorkspaceProxy } from '../../app/workspace-proxy/write.ts';
import { defineHandlers, type Exchange } from '../exchange.ts';
import type { ProxyLinks } from '../proxy-link.ts';

/** The visitor's address, as the proxy names it. Only the connection log has it. */
function visitorIp(ctx: Ctx, { request }: Exchange): string {
  const given = request.headers[VISITOR_HEADER];
  return typeof given === 'string' && isIP(given) !== 0 ? given : ctx.ip;
}

/** Workspace proxies, for people and for the proxies themselves. */
export function workspaceProxyHandlers(parts: AppTokenParts & { health: ProxyHealth; links: ProxyLinks }) {
  const { health, keys } = parts;
  return defineHandlers({
    'GET /regions': (ctx) => regions(ctx, health),
    'GET /workspaceproxies': (ctx) => listWorkspaceProxies(ctx, health),
    'POST /workspaceproxies': (ctx, { body }) => createWorkspaceProxy(ctx, health, body),
    'GET /workspaceproxies/{workspaceproxy}': (ctx, { params }) =>
      getWorkspaceProxy(ctx, health, params.workspaceproxy),
    'PATCH /workspaceproxies/{workspaceproxy}': (ctx, { params, body }) =>
      updateWorkspaceProxy(ctx, health, params.workspaceproxy, body),
    'DELETE /workspaceproxies/{workspaceproxy}': (ctx, { params }) => deleteWorkspaceProxy(ctx, params.workspaceproxy),
    'POST /workspaceproxies/me/register': (ctx, { body }) => registerProxy(ctx, body),
    'POST /workspaceproxies/me/deregister': (ctx, { body }) => deregisterProxy(ctx, body),
    'GET /workspaceproxies/me/crypto-keys': (ctx, { query }) => cryptoKeys(ctx, keys, query.feature),
    'POST /workspaceproxies/me/issue-signed-app-token': (ctx, { body, http }) =>
      issueAppToken(ctx, parts, { ip: visitorIp(ctx, http), userAgent: ctx.userAgent }, body),
    'POST /workspaceproxies/me/redeem-sign-in': (ctx, { body, http }) =>
      redeemAtProxy(ctx, parts.tokens, visitorIp(ctx, http), body),
    'GET /workspaceproxies/me/link': (ctx, { http }) => parts.links.accept(ctx, http),
    'POST /workspaceproxies/me/app-stats': (ctx, { body }) => reportAppStats(ctx, body),
  });
}
