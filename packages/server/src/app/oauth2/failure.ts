/** The error codes of RFC 6749, 7591, 7592 and 8707 that this server sends. */
export type OAuth2ErrorCode =
  | 'access_denied'
  | 'invalid_client'
  | 'invalid_client_metadata'
  | 'invalid_grant'
  | 'invalid_redirect_uri'
  | 'invalid_request'
  | 'invalid_scope'
  | 'invalid_target'
  | 'invalid_token'
  | 'server_error'
  | 'temporarily_unavailable'
  | 'unsupported_grant_type'
  | 'unsupported_response_type';

const STATUS: Partial<Record<OAuth2ErrorCode, number>> = {
  invalid_client: 401,
  invalid_token: 401,
  server_error: 500,
  temporarily_unavailable: 503,
};

/** An error in the protocol's own form. The message is for the developer of the app, and never contains a secret. */
export class OAuth2Failure extends Error {
  readonly error: OAuth2ErrorCode;
  readonly status: number;
  constructor(error: OAuth2ErrorCode, message: string, status = STATUS[error] ?? 400) {
    super(message);
    this.name = 'OAuth2Failure';
    this.error = error;
    this.status = status;
  }
}
