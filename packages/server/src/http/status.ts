import type { ErrorCode } from '@ropewalk/kit';

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
  unsupported: 501,
  unavailable: 503,
  timeout: 504,
};
