import { randomBytes } from 'node:crypto';
import { AppError, errorText, isAppError, type Logger } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import {
  DISK_FULL,
  isPgError,
  isTransient,
  isUnreachable,
  NOT_IN_REPERTOIRE,
  QUERY_CANCELED,
  READ_ONLY,
  UNTRANSLATABLE_CHARACTER,
} from '../../db/connect.ts';

/** The messages for values that no column can store, by PostgreSQL's error codes. */
const REFUSED_VALUES: Readonly<Record<string, string>> = {
  '22003': 'A number in the request is too large.',
  '54001': 'A value in the request is nested too deeply.',
  [NOT_IN_REPERTOIRE]: 'A text in the request contains a character that cannot be stored.',
  [UNTRANSLATABLE_CHARACTER]: 'A text in the request contains a character that cannot be stored.',
};

/**
 * The only place that says something to a caller about an error of the database, or one that nobody expected. Its own
 * text, which may name tables and values, stays in the log. The log line and the answer share a reference.
 */
export function describeUnexpected(err: unknown, log: Logger, context: Record<string, unknown> = {}): AppError {
  if (isAppError(err)) return err;
  const refused = isPgError(err) ? ownValue(REFUSED_VALUES, err.code) : undefined;
  if (refused !== undefined) {
    log.warn('the database rejected a value that the server should have rejected', { ...context, err });
    return new AppError('invalid', refused, { cause: err });
  }
  if (isPgError(err, DISK_FULL)) {
    log.error('the disk of the database is full', { ...context, err });
    return new AppError(
      'unavailable',
      "The disk of the server's database is full. Try again when an administrator has freed space.",
      { cause: err },
    );
  }
  if (isPgError(err, READ_ONLY)) {
    log.warn('the database accepts no writes', { ...context, err });
    return new AppError('unavailable', 'The database accepts no changes at the moment. Try again later.', {
      cause: err,
    });
  }
  if (isUnreachable(err)) {
    log.warn('the database is unreachable', { ...context, err });
    return new AppError('unavailable', 'The server cannot reach its database. Try again later.', { cause: err });
  }
  if (isPgError(err, QUERY_CANCELED)) {
    log.warn('the database canceled a statement that ran too long', { ...context, err });
    return new AppError('timeout', 'The request took too long and was canceled. Use fewer or narrower filters.', {
      cause: err,
    });
  }
  const reference = randomBytes(4).toString('hex');
  const detail = `The server's log has the reason, with the reference ${reference}.`;
  const where = { ...context, reference, err, pg: isPgError(err) ? err.code : undefined };
  if (isTransient(err)) {
    log.warn('the database failed', where);
    return new AppError('unavailable', 'The database failed. Try again.', { cause: err, detail });
  }
  log.error('internal error', { ...where, stack: (err as Error | undefined)?.stack });
  return new AppError('internal', 'An internal server error occurred.', { cause: err, detail });
}

/** The text of an error for administrators: its own, unless it comes from PostgreSQL. */
export function textForAdministrators(err: unknown, log: Logger, context: Record<string, unknown>): string {
  if (!isPgError(err)) return errorText(err);
  const { message, detail } = describeUnexpected(err, log, context);
  return [message, detail].filter(Boolean).join(' ');
}
