// Calls of this process to identity providers and external auth providers. A call names its provider and what it is for.
import { reports } from '@ropewalk/kit/reports';

/** What a call is for. The names are upstream's. */
export type CallSource =
  | 'AppInstallations'
  | 'AuthorizeDevice'
  | 'Exchange'
  | 'GitAPIAuthUser'
  | 'GitAPIListEmails'
  | 'GitAPIOrgMemberships'
  | 'GitAPITeamMemberships'
  | 'RevokeToken'
  | 'TokenSource'
  | 'ValidateToken';

export interface ProviderCall {
  /** The id of an external auth provider, `oidc-login` or `github-login`. */
  name: string;
  source: CallSource;
}

export interface ProviderAnswer extends ProviderCall {
  /** 0 if no answer came. */
  status: number;
  headers?: Headers;
}

export const { report: reportAnswer, observe: observeAnswers } = reports<ProviderAnswer>('platform.provider-answer');
