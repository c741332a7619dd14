// Calls of this process to identity providers and external auth providers, for metrics. A call names its provider and
// what it is for. Nothing is kept unless somebody observes.
import { channel } from 'node:diagnostics_channel';

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

const answers = channel('platform.provider-answer');

export const reportAnswer = (answer: ProviderAnswer): void => answers.publish(answer);

/** Calls `observe` for each answer until the returned function is called. */
export function observeAnswers(observe: (answer: ProviderAnswer) => void): () => void {
  const listener = (answer: unknown) => observe(answer as ProviderAnswer);
  answers.subscribe(listener);
  return () => {
    answers.unsubscribe(listener);
  };
}
