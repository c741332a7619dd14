import { AppError, isAppError } from '@ropewalk/kit';
import type { AppTokens } from '../../app/context/sealed-tokens.ts';
import type { Sessions } from '../../app/context/session.ts';
import { listPortShares, sharePort, unsharePort } from '../../app/workspace-app/port-shares.ts';
import { issueTerminalPass, redirectToApp } from '../../app/workspace-app/sign-in.ts';
import type { ProxyKeys } from '../../app/workspace-proxy/keys.ts';
import { issueTerminalToken } from '../../app/workspace-proxy/sign-in.ts';
import { requestToken } from '../auth.ts';
import { defineHandlers } from '../exchange.ts';

/** Shared ports, and the sign-in on an app's own host. */
export function applicationHandlers({
  sessions,
  tokens,
  proxyKeys,
}: {
  sessions: Sessions;
  tokens: AppTokens;
  proxyKeys: ProxyKeys;
}) {
  return defineHandlers({
    'GET /applications/auth-redirect': async (ctx, { query, http: { request, reply } }) => {
      reply.code(307).header('cache-control', 'no-store').header('referrer-policy', 'no-referrer');
      const token = requestToken(request)?.token;
      try {
        if (!token) throw new AppError('unauthenticated', 'Sign in to open this app.');
        const { actor } = await sessions.verify(token);
        const visitor = { ...ctx, actor, signal: ctx.signal };
        reply.header('location', await redirectToApp(visitor, tokens, query.redirect_uri));
      } catch (err) {
        if (!isAppError(err, 'unauthenticated')) throw err;
        reply.header('location', `/login?redirect=${encodeURIComponent(request.url)}`);
      }
      // the answer has no body
      return undefined as never;
    },
    'POST /applications/reconnecting-pty-signed-token': async (ctx, { body }) =>
      (await issueTerminalToken(ctx, proxyKeys, body)) ?? (await issueTerminalPass(ctx, tokens, body)),
    'GET /workspaces/{workspace}/port-share': (ctx, { params }) => listPortShares(ctx, params.workspace),
    'POST /workspaces/{workspace}/port-share': (ctx, { params, body }) => sharePort(ctx, params.workspace, body),
    'DELETE /workspaces/{workspace}/port-share': (ctx, { params, body }) => unsharePort(ctx, params.workspace, body),
  });
}
