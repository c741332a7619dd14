/**
 * The closed set of errors that the platform raises by meaning. HTTP, CLI and streams map a code to their own form
 * (http: errors.ts, cli: main.ts). Other code uses no status codes.
 */
export type ErrorCode =
  | 'invalid' // The request itself is wrong: a field, a body, a file.
  | 'unauthenticated' // The request has no credential, or an expired or revoked one.
  | 'forbidden' // The actor is known and lacks the permission.
  | 'not_found' // The thing is absent, or the actor may not learn of it.
  | 'conflict' // The thing's current state does not allow it.
  | 'precondition' // A precondition that the caller named does not hold.
  | 'not_acceptable' // A dependency is not ready yet (upstream: 406).
  | 'gone' // The thing existed once.
  | 'too_large' // The request exceeds a stated limit.
  | 'rate_limited'
  | 'unsupported' // The other side (agent, daemon) does not have what the request needs: trying again does not help.
  | 'unavailable' // A dependency (database, agent, daemon) is unreachable: try again.
  | 'timeout'
  | 'canceled'
  | 'internal';

/** A rejected field of the request, in upstream's form. */
export interface Validation {
  field: string;
  detail: string;
}

export interface AppErrorOptions {
  detail?: string;
  validations?: Validation[];
  cause?: unknown;
  /** The same request may succeed after this time, in s, without anything that a person does. */
  retryAfter?: number;
}

/** An error with a meaning. `message` is one sentence for a person and never contains a secret. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly detail: string | undefined;
  readonly validations: Validation[] | undefined;
  readonly retryAfter: number | undefined;
  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.detail = options.detail;
    this.validations = options.validations;
    this.retryAfter = options.retryAfter;
  }
}

/** Whether a thrown value is an AppError: with this code, if one is given. */
export function isAppError(err: unknown, code?: ErrorCode): err is AppError {
  return err instanceof AppError && (code === undefined || err.code === code);
}

/** The text of any thrown value, for a log or a `detail`. */
export function errorText(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}
