import { MCP_PATH } from '@ropewalk/contract';
import { AppError, type ErrorCode, isAppError, type Logger } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Services } from '../app/context/context.ts';
import { describeUnexpected } from '../app/context/unexpected.ts';
import { challengeFor } from '../app/oauth2/challenge.ts';
import { notFound } from '../authz/not-found.ts';
import { requestToken } from './auth.ts';
import { statusOf } from './status.ts';

export interface ErrorBody {
  message: string;
  detail?: string;
  validations?: { field: string; detail: string }[];
}

/** What a text of our own format must be. */
const FORMATS: Readonly<Record<string, string>> = {
  'image-address': 'must be a path, or a URL that starts with https:// or http://',
};

const formatDetail = ({ format }: Record<string, unknown>): string | undefined => ownValue(FORMATS, String(format));

/** Turns errors of Fastify, the database and any other kind into an AppError. */
export function toAppError(err: unknown, log: Logger, context: Record<string, unknown> = {}): AppError {
  if (isAppError(err)) return err;
  const fastify = err as FastifyError;
  if (fastify?.validation) {
    return new AppError('invalid', 'Validation failed.', {
      validations: fastify.validation.map((issue) => ({
        field: fieldOf(issue.instancePath, issue.params),
        detail: formatDetail(issue.params) ?? issue.message ?? 'is invalid',
      })),
    });
  }
  // no route has a name that long
  if (fastify?.code === 'FST_ERR_MAX_PARAM_LENGTH') return notFound();
  if (typeof fastify?.statusCode === 'number' && fastify.statusCode < 500) {
    const code = (Object.entries(statusOf).find(([, status]) => status === fastify.statusCode)?.[0] ??
      'invalid') as ErrorCode;
    return new AppError(
      code,
      fastify.statusCode === 413 ? 'The request body is too large.' : 'Request could not be read.',
      {
        detail: fastify.message,
      },
    );
  }
  // the longest string of V8: the answer would be half a gigabyte
  if (err instanceof RangeError && err.message === 'Invalid string length') {
    return new AppError('too_large', 'The answer is too large. Ask for less of it with limit and offset.');
  }
  return describeUnexpected(err, log, context);
}

function fieldOf(path: string, params: Record<string, unknown> | undefined): string {
  const at = path.split('/').filter(Boolean);
  const missing = params?.['missingProperty'];
  if (typeof missing === 'string') at.push(missing);
  return at.join('.') || 'body';
}

export function errorBody(err: AppError): ErrorBody {
  return {
    message: err.message,
    ...(err.detail === undefined ? {} : { detail: err.detail }),
    ...(err.validations === undefined ? {} : { validations: err.validations }),
  };
}

export function answerError(err: AppError, reply: FastifyReply): FastifyReply {
  if (reply.raw.headersSent) return reply;
  if (err.retryAfter !== undefined) reply.header('retry-after', err.retryAfter);
  return reply
    .code(statusOf[err.code])
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(err)));
}

export function installErrors(app: FastifyInstance, services: Services): void {
  app.setErrorHandler((err, request: FastifyRequest, reply) => {
    const context = { method: request.method, route: request.routeOptions.url, request_id: request.id };
    const known = toAppError(err, services.log, context);
    const challenge = challengeFor(services, known, {
      actor: request.actor,
      sentToken: requestToken(request) !== undefined,
      resource: request.routeOptions.url === MCP_PATH ? MCP_PATH : '',
    });
    if (challenge !== undefined) reply.header('www-authenticate', challenge);
    return answerError(known, reply);
  });
  app.setNotFoundHandler((_request, reply) => answerError(new AppError('not_found', 'Route not found.'), reply));
}
