/**
 * `refused`: the peer rejected the session, with its reason. `lost`: no connection succeeded in time. `closed`: the
 * peer ended the session. `protocol`: the peer broke the protocol.
 */
export type ResumeErrorCode = 'refused' | 'lost' | 'closed' | 'protocol';

export class ResumeError extends Error {
  readonly code: ResumeErrorCode;
  constructor(code: ResumeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ResumeError';
    this.code = code;
  }
}
