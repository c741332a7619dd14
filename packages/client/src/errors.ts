import type { FetchAnswer } from './answer.ts';

/** The server's error answer, in upstream's form. */
export class ApiError extends Error {
  readonly status: number;
  readonly detail: string;
  readonly validations: readonly { field: string; detail: string }[];
  /** The same request may succeed after this time, in s. Undefined: the server knows of none. */
  readonly retryAfter: number | undefined;
  constructor(
    status: number,
    message: string,
    detail = '',
    validations: readonly { field: string; detail: string }[] = [],
    retryAfter?: number,
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.detail = detail;
    this.validations = validations;
    this.retryAfter = retryAfter;
  }
}

/** No answer: wrong address, nothing listens, or the network is down. */
export class UnreachableError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'UnreachableError';
  }
}

/** Formats the error as one or two sentences for a person. */
export function apiErrorText(err: ApiError): string {
  const parts = [err.message.replace(/[.\s]*$/, '.')];
  if (err.detail) parts.push(err.detail);
  for (const { field, detail } of err.validations) {
    if (!err.message.includes(detail)) parts.push(`${field}: ${detail}`);
  }
  if (err.status === 401) parts.push('Log in with: coder login');
  return parts.join(' ');
}

export function errorOf(answer: Pick<FetchAnswer, 'status' | 'headers'>, text: string, request: string): ApiError {
  const type = answer.headers.get('content-type') ?? '';
  if (/^application\/(problem\+)?json/.test(type)) {
    try {
      const { message, detail, validations } = JSON.parse(text) as {
        message?: string;
        detail?: string;
        validations?: { field: string; detail: string }[];
      };
      const after = /^\d{1,6}$/.exec(answer.headers.get('retry-after') ?? '')?.[0];
      const seconds = after === undefined ? undefined : Number(after);
      if (typeof message === 'string') return new ApiError(answer.status, message, detail, validations ?? [], seconds);
    } catch {
      // Shown like any other text.
    }
  }
  const location = answer.headers.get('location');
  const what = location ? `a redirect to ${location}` : `status ${answer.status} (${type || 'no content type'})`;
  return new ApiError(
    answer.status,
    `Unexpected non-JSON response to ${request}: ${what}`,
    location ? '' : "Is this the server's address? A proxy in between may have answered.",
  );
}
