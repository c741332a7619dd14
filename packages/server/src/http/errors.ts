import { AppError, type ErrorCode, isAppError, type Logger } from '@platform/kit';
import { ownValue } from '@platform/kit/own-value';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from '../authz/not-found.ts';
import { DISK_FULL, isPgError, isUnreachable, QUERY_CANCELED } from '../db/connect.ts';

/** The only place that maps the code of an error to an HTTP status. */
export const statusOf: Readonly<Record<ErrorCode, number>> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  not_acceptable: 406,
  conflict: 409,
  gone: 410,
  precondition: 412,
  too_large: 413,
  rate_limited: 429,
  canceled: 499,
  internal: 500,
  unavailable: 503,
  timeout: 504,
};

export interface ErrorBody {
  message: string;
  detail?: string;
  validations?: { field: string; detail: string }[];
}

/** The messages for values that no column can store, by PostgreSQL's error codes. */
const REFUSED_VALUES: Readonly<Record<string, string>> = {
  '22003': 'A number of the request is too large.',
  '54001': 'A value of the request is nested too deeply.',
  '22021': 'A text of the request contains a character that cannot be stored.',
  '22P05': 'A text of the request contains a character that cannot be stored.',
};

/** What a text of a format of our own must be. */
const FORMATS: Readonly<Record<string, string>> = {
  'image-address': 'must be a path, or a URL that starts with https:// or http://',
};

const formatDetail = ({ format }: Record<string, unknown>): string | undefined => ownValue(FORMATS, String(format));

/** Turns errors of Fastify and the database driver into an AppError. Unknown errors become `internal`, and their text stays in the log. */
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
  const refused = isPgError(err) ? REFUSED_VALUES[err.code] : undefined;
  if (refused !== undefined) {
    log.warn('the database rejected a value that the server should have rejected', { ...context, err });
    return new AppError('invalid', refused);
  }
  if (isPgError(err, DISK_FULL)) {
    log.error('the disk of the database is full', { ...context, err });
    return new AppError(
      'unavailable',
      "The disk of the server's database is full. Try again when an administrator has freed space.",
    );
  }
  if (isUnreachable(err)) {
    log.warn('the database is unreachable', { ...context, err });
    return new AppError('unavailable', 'The database cannot be reached.');
  }
  // the longest string of V8: the answer would be half a gigabyte
  if (err instanceof RangeError && err.message === 'Invalid string length') {
    return new AppError('too_large', 'The answer is too large. Ask for less of it with limit and offset.');
  }
  if (isPgError(err, QUERY_CANCELED)) {
    log.warn('the database canceled a statement that ran too long', { ...context, err });
    return new AppError('timeout', 'The request took too long and was canceled. Use fewer or narrower filters.');
  }
  log.error('internal error', {
    ...context,
    err,
    stack: (err as Error)?.stack,
    pg: isPgError(err) ? err.code : undefined,
  });
  return new AppError('internal', 'An internal server error occurred.');
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
  return reply
    .code(statusOf[err.code])
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(err)));
}

export function installErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((err, request: FastifyRequest, reply) =>
    answerError(
      toAppError(err, log, { method: request.method, route: request.routeOptions.url, request_id: request.id }),
      reply,
    ),
  );
  app.setNotFoundHandler((_request, reply) => answerError(new AppError('not_found', 'Route not found.'), reply));
}
