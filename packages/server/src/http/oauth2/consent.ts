// The address to which an app sends the browser for a code, and the person's own address to end what an app may do.

import { AppError, isAppError } from '@ropewalk/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx } from '../../app/context/context.ts';
import type { AppTokens } from '../../app/context/sealed-tokens.ts';
import type { Sessions } from '../../app/context/session.ts';
import { getAppearance } from '../../app/deployment/appearance.ts';
import { endOAuth2Access } from '../../app/oauth2/apps.ts';
import {
  type AuthorizeFailure,
  type AuthorizeRequest,
  approve,
  denialLocation,
  readAuthorizeRequest,
  requireSession,
} from '../../app/oauth2/authorize.ts';
import { receiverOf } from '../../app/oauth2/redirects.ts';
import { scopeInWords } from '../../app/oauth2/scopes.ts';
import { sha256 } from '../../app/values/token.ts';
import type { UserActor } from '../../authz/actor.ts';
import { wantsHtml } from '../apps/pages.ts';
import { checkForgery, requestToken } from '../auth.ts';
import { noneIfSignedOut } from '../authenticate.ts';
import { answerError, toAppError } from '../errors.ts';
import { RequestContext } from '../request-context.ts';
import { statusOf } from '../status.ts';
import { consentPage, problemPage, sendPage } from './page.ts';
import { answerFailure, type OAuth2Parts } from './protocol.ts';

export interface ConsentParts extends OAuth2Parts {
  sessions: Sessions;
  tokens: AppTokens;
}

const PURPOSE = 'oauth2 consent';
/** How long a person may think about it, in ms. */
const CONSENT_MS = 30 * 60_000;
const MAX_BODY = 16 * 1024;
const PATH = '/oauth2/authorize';

/** Proves that the form of this address was shown in this session. */
interface Proof {
  session: string;
  query: string;
  expires: number;
}

interface Visit {
  ctx: Ctx;
  actor: UserActor;
  fromCookie: boolean;
  query: URLSearchParams;
}

const queryOf = ({ url }: FastifyRequest): string => /\?([^#]*)/.exec(url)?.[1] ?? '';
const digestOf = (request: FastifyRequest): string => sha256(queryOf(request)).toString('base64url');

export function consentRoutes(app: FastifyInstance, parts: ConsentParts): void {
  const { services, sessions, tokens, clientAddress, rateLimit, stall } = parts;

  /** The person who asks. Undefined: the browser goes to the sign-in page. */
  async function visit(request: FastifyRequest, reply: FastifyReply): Promise<Visit | undefined> {
    // a link could contain the token of another account
    const found = requestToken({ headers: request.headers, query: {} });
    const session = found && (await sessions.verify(found.token).catch(noneIfSignedOut));
    if (!session) {
      if (wantsHtml(request.raw) && request.method === 'GET') return undefined;
      throw new AppError('unauthenticated', 'You are signed out or your session has expired. Sign in, then try again.');
    }
    const { actor } = session;
    checkForgery(request, found.fromCookie, services.accessUrl);
    rateLimit.count(`${request.method} ${request.routeOptions.url}`, actor, request, reply);
    const ctx = new RequestContext(services, { actor, ip: clientAddress(request.raw) }, request, reply);
    return { ctx, actor, fromCookie: found.fromCookie, query: new URLSearchParams(queryOf(request)) };
  }

  const errorHandler = (err: unknown, request: FastifyRequest, reply: FastifyReply) =>
    void showProblem(parts, err, request, reply).catch(() => answerFailure(parts, err, request, reply));

  const route = (method: 'GET' | 'POST', handle: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>) =>
    app.route({
      method,
      url: PATH,
      bodyLimit: MAX_BODY,
      errorHandler,
      handler: async (request, reply) => {
        reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'same-origin' });
        return stall.guard(handle(request, reply));
      },
    });

  route('GET', async (request, reply) => {
    const visited = await visit(request, reply);
    if (!visited) return reply.redirect(`/login?${new URLSearchParams({ redirect: request.url })}`, 303);
    const { ctx, actor, query } = visited;
    const asked = await readAuthorizeRequest(ctx, query);
    if ('failure' in asked) return failTo(ctx, asked, request, reply);
    await requireSession(ctx, actor);
    const proof: Proof = {
      session: actor.apiKeyId,
      query: digestOf(request),
      expires: ctx.clock.now().getTime() + CONSENT_MS,
    };
    const page = consentPage({
      look: await getAppearance(ctx),
      app: asked.app,
      redirectUri: asked.redirectUri,
      username: actor.username,
      scopes: asked.scopes.map((name) => ({ name, words: scopeInWords(name) })),
      resource: asked.resource,
      proof: tokens.seal(PURPOSE, proof),
    });
    return sendPage(reply, 200, page, asked.redirectUri);
  });

  route('POST', async (request, reply) => {
    const visited = (await visit(request, reply))!;
    const { ctx, actor, query, fromCookie } = visited;
    const form = formOf(request);
    // programs choose to send a header. A browser sends its cookie with any form
    if (fromCookie) checkProof(ctx, actor, request, tokens.unseal<Proof>(PURPOSE, form.get('csrf_token') ?? ''));
    const asked = await readAuthorizeRequest(ctx, query);
    if ('failure' in asked) return failTo(ctx, asked, request, reply);
    return reply.redirect(await decide(ctx, actor, asked, form.get('decision')), 302);
  });

  app.delete('/oauth2/tokens', async (request, reply) => {
    const visited = await visit(request, reply);
    await stall.guard(endOAuth2Access(visited!.ctx, visited!.query.get('client_id') ?? ''));
    return reply.code(204).header('cache-control', 'no-store').send();
  });
}

const decide = async (ctx: Ctx, actor: UserActor, asked: AuthorizeRequest, decision: string | null) =>
  decision === 'deny' ? denialLocation(ctx, asked) : approve(ctx, actor, asked);

const formOf = ({ body }: FastifyRequest): URLSearchParams =>
  new URLSearchParams(Buffer.isBuffer(body) ? body.toString('utf8') : '');

function checkProof(ctx: Ctx, actor: UserActor, request: FastifyRequest, proof: Proof | undefined): void {
  const valid =
    proof?.session === actor.apiKeyId && proof.query === digestOf(request) && proof.expires > ctx.clock.now().getTime();
  if (valid) return;
  throw new AppError('forbidden', 'This page has expired.', {
    detail: 'It was opened in another session or too long ago. Start again in the app.',
  });
}

/**
 * Takes an error to the app. An app that nobody has checked does not get the browser by an error alone: its registration
 * would make every address one to which this server redirects.
 */
async function failTo(
  ctx: Ctx,
  { app, failure, location, redirectUri }: AuthorizeFailure,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (!app.dynamically_registered) return reply.redirect(location, 302);
  if (!wantsHtml(request.raw)) throw failure;
  const page = problemPage({
    look: await getAppearance(ctx),
    title: `${app.name} cannot sign you in`,
    detail: `The app sent a wrong request. ${failure.message}`,
    link: { url: location, text: `Return to ${receiverOf(redirectUri)}` },
  });
  return sendPage(reply, failure.status, page);
}

/** Shows an error on a page or, for programs, in the API's shape. */
async function showProblem(
  parts: ConsentParts,
  err: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  if (err instanceof Error && err.name === 'OAuth2Failure') {
    answerFailure(parts, err, request, reply);
    return;
  }
  const { services, clientAddress } = parts;
  const known = isAppError(err) ? err : toAppError(err, services.log, { route: request.routeOptions.url });
  if (!wantsHtml(request.raw)) {
    answerError(known, reply);
    return;
  }
  const ctx = new RequestContext(services, { actor: { kind: 'none' }, ip: clientAddress(request.raw) }, request, reply);
  const page = problemPage({ look: await getAppearance(ctx), title: known.message, detail: known.detail });
  sendPage(reply, statusOf[known.code], page);
}
