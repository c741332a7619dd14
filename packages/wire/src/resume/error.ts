/** `refused`: the peer said no, in its words; `lost`: no carrier came in time; `closed`: the peer ended it; `protocol`. */
export type ResumeErrorCode = 'refused' | 'lost' | 'closed' | 'protocol';

export class ResumeError extends Error {
  readonly code: ResumeErrorCode;
  constructor(code: ResumeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ResumeError';
    this.code = code;
  }
}
