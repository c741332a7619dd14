import type { ExternalAuthLink, ExternalAuthLinkProvider } from '@ropewalk/contract';
import { paths } from '../util/paths.ts';
import { apiQuery } from './query.ts';

/** A person's accounts at other services. The server announces a connected account as a change of the person. */
export const accountsQuery = apiQuery('GET /external-auth', [{ kind: 'user' }]);

export const accountQuery = (externalauth: string) =>
  apiQuery('GET /external-auth/{externalauth}', [{ kind: 'user' }], { params: { externalauth } });

export interface Account {
  provider: ExternalAuthLinkProvider;
  link: ExternalAuthLink | undefined;
}

/** The providers, each with the person's link. */
export function accountsOf(answer: {
  providers: readonly ExternalAuthLinkProvider[];
  links: readonly ExternalAuthLink[];
}): Account[] {
  return answer.providers.map((provider) => ({
    provider,
    link: answer.links.find(({ provider_id }) => provider_id === provider.id),
  }));
}

/** Where a person connects an account. The provider sends the browser back to `redirect`. */
export const connectHref = ({ id, device }: { id: string; device: boolean }, redirect?: string): string =>
  device ? paths.externalAuth(id) : paths.connectAccount(id, redirect);
