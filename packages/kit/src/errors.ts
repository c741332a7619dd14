/**
 * The closed set of errors that the platform raises by meaning. HTTP, CLI and streams map a code to their own
 * form at the edge (http: errors.ts, cli: main.ts); nothing below the edge knows a status code.
 */
export type ErrorCode =
  | 'invalid' // the request itself is wrong: a field, a body, a file
  | 'unauthenticated' // nobody, or an expired or revoked somebody
  | 'forbidden' // known, and may not
  | 'not_found' // absent, or not to be known to this actor
  | 'conflict' // the state of the thing forbids it now
  | 'precondition' // an expectation that the caller named does not hold
  | 'not_acceptable' // a dependency is not ready yet (published: 406)
  | 'gone' // was here once
  | 'too_large' // over a stated limit
  | 'rate_limited'
  | 'unavailable' // a dependency (database, agent, daemon) is away: try again
  | 'timeout'
  | 'canceled'
  | 'internal';

/** A field of the request that was refused, in the published shape. */
export interface Validation {
  field: string;
  detail: string;
}

export interface AppErrorOptions {
  detail?: string;
  validations?: Validation[];
  cause?: unknown;
}

/** An error with a meaning. `message` is one sentence for a person; secrets never go in. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly detail: string | undefined;
  readonly validations: Validation[] | undefined;
  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.detail = options.detail;
    this.validations = options.validations;
  }
}

export function isAppError(err: unknown, code?: ErrorCode): err is AppError {
  return err instanceof AppError && (code === undefined || err.code === code);
}

/** The text of whatever was thrown, for a log or a `detail`. */
export function errorText(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}
