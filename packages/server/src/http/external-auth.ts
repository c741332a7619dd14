/**
 * The route that connects an account: it sends the browser to the provider and takes it back. It is outside of the API,
 * since its address is registered at the providers.
 */
import { AppError, isAppError } from '@ropewalk/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx, Services } from '../app/context/context.ts';
import type { Sessions } from '../app/context/session.ts';
import { connectAccount, providerOf } from '../app/external-auth/accounts.ts';
import { authorizationUrl, exchangeCode } from '../app/external-auth/oauth.ts';
import { FLOW_MS, type Flows, ownPath } from '../app/sign-in/flow.ts';
import type { UserActor } from '../authz/actor.ts';
import { wantsHtml } from './apps/pages.ts';
import { requestToken } from './auth.ts';
import { noneIfSignedOut } from './authenticate.ts';
import type { ClientAddress } from './client-address.ts';
import { cookieValue } from './cookies.ts';
import { RequestContext } from './request-context.ts';
import { cookieAttributes } from './session-cookie.ts';

const COOKIE_PATH = '/external-auth';
/** Shows the reason of a failure on the provider's page, which removes it. Not a secret: the page's script reads it. */
const ERROR_COOKIE = 'coder_external_auth_error';
const MAX_ERROR_CHARACTERS = 1_000;

export interface ExternalAuthParts {
  services: Services;
  sessions: Sessions;
  flows: Flows;
  clientAddress: ClientAddress;
}

export function externalAuthRoutes(app: FastifyInstance, parts: ExternalAuthParts): void {
  const { services, sessions, flows, clientAddress } = parts;
  app.get<{ Params: { id: string } }>('/external-auth/:id/callback', async (request, reply) => {
    const { id } = request.params;
    reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' });
    const found = requestToken(request);
    const session = found && (await sessions.verify(found.token).catch(noneIfSignedOut));
    if (!session) {
      if (wantsHtml(request.raw)) {
        return reply.redirect(
          `/login?${new URLSearchParams({ redirect: `/external-auth/${encodeURIComponent(id)}` })}`,
          303,
        );
      }
      throw new AppError('unauthenticated', 'You are signed out or your session has expired. Sign in, then try again.');
    }
    const { actor } = session;
    const ctx = new RequestContext(services, { actor, ip: clientAddress(request.raw) }, request, reply);
    try {
      return await connect(ctx, flows, actor, id, request, reply);
    } catch (err) {
      // programs get the error itself
      if (!isAppError(err) || err.code === 'not_found' || !wantsHtml(request.raw)) throw err;
      ctx.log.info('could not connect an account', { provider: id, err: err.message, detail: err.detail });
      const shown = JSON.stringify({ message: err.message, detail: err.detail?.slice(0, MAX_ERROR_CHARACTERS) });
      const cookie = `${ERROR_COOKIE}=${encodeURIComponent(shown)}; Path=${COOKIE_PATH}; Max-Age=60; SameSite=Lax`;
      return reply.header('set-cookie', cookie).redirect(`/external-auth/${id}`, 303);
    }
  });
}

async function connect(
  ctx: Ctx,
  flows: Flows,
  actor: UserActor,
  id: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const provider = providerOf(ctx, id);
  const page = `/external-auth/${provider.id}`;
  const purpose = `external auth ${provider.id}`;
  const query = new URL(request.url, ctx.accessUrl).searchParams;
  const state = query.get('state');
  // the page shows the code
  if (provider.device_flow) return reply.redirect(page, 303);
  if (state === null) {
    const redirect = query.has('redirect') ? ownPath(query.get('redirect')!, ctx.accessUrl) : page;
    const { flow, name, text } = flows.start(purpose, { redirect, session: actor.apiKeyId });
    const age = FLOW_MS / 1_000;
    reply.header('set-cookie', `${name}=${text}; Path=${COOKIE_PATH}; Max-Age=${age}; ${cookieAttributes(ctx)}`);
    return reply.redirect(authorizationUrl(ctx, provider, flow), 307);
  }
  const name = flows.cookieOf(state);
  const flow = flows.read(purpose, state, cookieValue(request.headers.cookie, name));
  flows.finish(state);
  reply.header('set-cookie', `${name}=; Path=${COOKIE_PATH}; Max-Age=0; ${cookieAttributes(ctx)}`);
  if (flow.session !== actor.apiKeyId) {
    throw new AppError('forbidden', 'You started to connect this account in another session. Connect it again.');
  }
  const error = query.get('error');
  if (error !== null) {
    throw new AppError('invalid', `${provider.display_name} did not connect the account.`, {
      detail: query.get('error_description') ?? error,
    });
  }
  const code = query.get('code') ?? '';
  if (code === '') throw new AppError('invalid', `${provider.display_name} sent no code. Try again.`);
  await connectAccount(ctx, provider, await exchangeCode(ctx, provider, code, flow));
  return reply.redirect(flow.redirect, 303);
}
