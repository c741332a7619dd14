import type { OAuth2DeviceFlowCallbackResponse } from '@ropewalk/contract';
import { AppError, isAppError } from '@ropewalk/kit';
import type { Ctx } from '../../app/context/context.ts';
import type { ProviderType } from '../../app/context/login-types.ts';
import type { AppTokens } from '../../app/context/sealed-tokens.ts';
import { signInWithIdentity } from '../../app/sign-in/account.ts';
import { convertLogin, personOfConversion } from '../../app/sign-in/convert-login.ts';
import { FLOW_MS, type Flows, ownPath } from '../../app/sign-in/flow.ts';
import type { GithubProvider } from '../../app/sign-in/github.ts';
import type { Providers } from '../../app/sign-in/provider.ts';
import type { SignInLimit } from '../../app/sign-in/sign-in-limit.ts';
import { wantsHtml } from '../apps/pages.ts';
import { cookieValue } from '../cookies.ts';
import { defineHandlers, type Exchange } from '../exchange.ts';
import { cookieAttributes, sessionCookie } from '../session-cookie.ts';

/** The routes below which providers send the browser back. */
const COOKIE_PATH = '/api/v2/users';
/** Shows the reason of a failed sign-in on the sign-in page, which removes it. Not a secret: the page's script reads it. */
const ERROR_COOKIE = 'coder_sign_in_error';
const CONVERSION_COOKIE = 'coder_convert_login';
const MAX_ERROR_CHARACTERS = 1_000;

const notConfigured = () => new AppError('invalid', 'This sign-in method is not configured on this server.');

/** Sign-in at a provider. The same route starts a sign-in and takes the browser back. */
export function signInHandlers({
  providers,
  flows,
  tokens,
  limit,
}: {
  providers: Providers & { github?: GithubProvider };
  flows: Flows;
  tokens: AppTokens;
  limit: SignInLimit;
}) {
  async function signIn(
    ctx: Ctx,
    type: ProviderType,
    { request, reply }: Exchange,
  ): Promise<OAuth2DeviceFlowCallbackResponse> {
    const query = new URL(request.url, ctx.accessUrl).searchParams;
    const state = query.get('state');
    reply.code(307).header('cache-control', 'no-store').header('referrer-policy', 'no-referrer');
    let redirect = ownPath(query.get('redirect') ?? undefined, ctx.accessUrl);
    try {
      const provider = providers[type];
      if (!provider) throw notConfigured();
      if (state === null) {
        const merge = query.get('oidc_merge_state');
        const sealed = cookieValue(request.headers.cookie, CONVERSION_COOKIE);
        const convert = merge === null ? undefined : personOfConversion(ctx, tokens, type, { state: merge, sealed });
        const { flow, name, text } = flows.start(type, { redirect, convert });
        const location = await provider.authorizationUrl(flow);
        const age = FLOW_MS / 1_000;
        reply.header('set-cookie', `${name}=${text}; Path=${COOKIE_PATH}; Max-Age=${age}; ${cookieAttributes(ctx)}`);
        reply.header('location', location.href);
      } else {
        const name = flows.cookieOf(state);
        const flow = flows.read(type, state, cookieValue(request.headers.cookie, name));
        redirect = flow.redirect;
        const finish = () => {
          flows.finish(state);
          const gone = `${name}=; Path=${COOKIE_PATH}; Max-Age=0; ${cookieAttributes(ctx)}`;
          reply.header('set-cookie', gone);
        };
        // a page that waits for a person asks again
        if (!provider.device) finish();
        const identity = await provider.identify(query, flow);
        if (provider.device) finish();
        const token = await signInWithIdentity(ctx, provider, identity, flow.convert);
        reply.header('set-cookie', sessionCookie(ctx, token));
        if (provider.device) {
          reply.code(200);
          return { redirect_url: redirect };
        }
        reply.header('location', redirect);
      }
    } catch (err) {
      // programs get the error itself
      if (!isAppError(err) || !wantsHtml(request.raw)) throw err;
      ctx.log.info('a sign-in failed', { provider: type, err: err.message, detail: err.detail });
      const detail = err.detail?.slice(0, MAX_ERROR_CHARACTERS);
      // of all details, the administrator writes this one, in Markdown
      const markdown = detail !== undefined && detail === providers[type]?.signUps.deniedText;
      const shown = JSON.stringify({ message: err.message, detail, markdown });
      reply.header('set-cookie', `${ERROR_COOKIE}=${encodeURIComponent(shown)}; Path=/login; Max-Age=60; SameSite=Lax`);
      reply.header('location', `/login${redirect === '/' ? '' : `?${new URLSearchParams({ redirect })}`}`);
    }
    // the answer has no body
    return undefined as never;
  }

  return defineHandlers({
    'GET /users/oidc/callback': (ctx, { http }) => signIn(ctx, 'oidc', http) as Promise<never>,
    'GET /users/oauth2/github/callback': (ctx, { http }) => signIn(ctx, 'github', http),
    'GET /users/oauth2/github/device': () => {
      if (!providers.github) throw notConfigured();
      return providers.github.startDevice();
    },
    'POST /users/{user}/convert-login': async (ctx, { params, body, http }) => {
      const { answer, sealed } = await convertLogin(ctx, { limit, tokens }, params.user, body);
      if (sealed) {
        const cookie = `${CONVERSION_COOKIE}=${sealed}; Path=${COOKIE_PATH}; Max-Age=300; ${cookieAttributes(ctx)}`;
        http.reply.header('set-cookie', cookie);
      }
      return answer;
    },
  });
}
