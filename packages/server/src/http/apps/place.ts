import { AppError } from '@ropewalk/kit';
import { parseWildcard, type Wildcard } from '../../app/values/app-address.ts';

/** Where a proxy of apps is, and what belongs to its addresses. */
export interface AppPlace {
  /** Where browsers reach path apps, without a slash at its end. */
  readonly accessUrl: string;
  /** The origin of the dashboard. */
  readonly dashboardUrl: string;
  /** The hosts of apps. Undefined where apps have only paths. */
  readonly wildcard: Wildcard | undefined;
  readonly disablePathApps: boolean;
  /** Whether browsers reach the proxy and its apps over TLS. */
  readonly isSecure: boolean;
}

interface PlaceConfig {
  wildcardAccessUrl: string;
  disablePathApps: boolean;
  secureAuthCookie: boolean;
}

/**
 * @param owner its access URL is known only after it listens, if no option names one
 * @throws AppError `invalid` if --wildcard-access-url is not a pattern
 */
export function createAppPlace(
  { wildcardAccessUrl, disablePathApps, secureAuthCookie }: PlaceConfig,
  owner: { readonly accessUrl: string },
): AppPlace {
  const wildcard = wildcardAccessUrl === '' ? undefined : parseWildcard(wildcardAccessUrl);
  if (wildcardAccessUrl !== '' && !wildcard) {
    throw new AppError(
      'invalid',
      `--wildcard-access-url must be a pattern like *.apps.example.com, not ${JSON.stringify(wildcardAccessUrl)}.`,
    );
  }
  return {
    get accessUrl() {
      return owner.accessUrl;
    },
    get dashboardUrl() {
      return owner.accessUrl;
    },
    wildcard,
    disablePathApps,
    get isSecure() {
      return secureAuthCookie || owner.accessUrl.startsWith('https:') || wildcard?.scheme === 'https';
    },
  };
}
