import { AppError } from '@ropewalk/kit';
import { parseWildcard, wildcardHost } from '../app/values/app-address.ts';
import type { OptionName } from '../config/options/rows.ts';
import type { Config } from '../config/options.ts';

/** The options of a server that a workspace proxy has, too, in the order of its help. */
export const SHARED_OPTIONS = [
  'accessUrl',
  'wildcardAccessUrl',
  'httpAddress',
  'derpServerRelayUrl',
  'tlsEnable',
  'tlsAddress',
  'tlsCertFile',
  'tlsKeyFile',
  'tlsMinVersion',
  'tlsClientAuth',
  'tlsClientCaFile',
  'tlsCiphers',
  'tlsAllowInsecureCiphers',
  'proxyTrustedHeaders',
  'proxyTrustedOrigins',
  'secureAuthCookie',
  'strictTransportSecurity',
  'strictTransportSecurityOptions',
  'disablePathApps',
  'maxTunnelsPerUser',
  'derpServerEnable',
  'logHuman',
  'logJson',
  'logStackdriver',
  'logFilter',
  'verbose',
] as const satisfies readonly OptionName[];

export interface WorkspaceProxyOptions extends Pick<Config, (typeof SHARED_OPTIONS)[number]> {
  /** Of the server. */
  primaryAccessUrl: string;
  /** `<id>:<secret>` */
  sessionToken: string;
  /** Whether the proxy is only a relay, and serves no apps and terminals. */
  derpOnly: boolean;
}

/** Where the proxy and its server are, checked. */
export interface ProxyAddresses {
  /** The origin of the server. */
  primaryUrl: string;
  /** The origin of the proxy. */
  accessUrl: string;
  /** The host names of apps as the proxy registers them. Empty without one. */
  wildcardHostname: string;
  proxyId: string;
}

const wrong = (text: string) => new AppError('invalid', text);

/** @throws AppError `invalid` that names the option */
export function checkAddresses(options: WorkspaceProxyOptions): ProxyAddresses {
  const { sessionToken, accessUrl, primaryAccessUrl, wildcardAccessUrl, derpOnly, derpServerEnable } = options;
  const [proxyId = '', secret = ''] = sessionToken.split(':');
  if (sessionToken === '')
    throw wrong('Set --proxy-session-token, to what this command printed at the server: coder wsproxy create');
  if (!/^[0-9a-f-]{36}$/i.test(proxyId) || secret === '')
    throw wrong('--proxy-session-token must be the id of the proxy and its secret: <id>:<secret>.');
  if (primaryAccessUrl === '') throw wrong('Set --primary-access-url, to the URL of the server.');
  if (accessUrl === '') throw wrong('Set --access-url, to the URL where people reach this proxy.');
  if (derpOnly && !derpServerEnable)
    throw wrong('--derp-only needs the relay: remove --derp-server-enable=false (CODER_DERP_SERVER_ENABLE).');
  const own = originOf('--access-url', accessUrl);
  const primaryUrl = originOf('--primary-access-url', primaryAccessUrl);
  if (own === primaryUrl) throw wrong('--access-url must be the URL of this proxy, not that of the server.');
  const wildcard = wildcardAccessUrl === '' ? undefined : parseWildcard(wildcardAccessUrl);
  if (wildcardAccessUrl !== '' && !wildcard)
    throw wrong(
      `--wildcard-access-url must be a pattern like *.eu.example.com, not ${JSON.stringify(wildcardAccessUrl)}.`,
    );
  return {
    proxyId: proxyId.toLowerCase(),
    primaryUrl,
    accessUrl: own,
    wildcardHostname: wildcard ? wildcardHost(wildcard, own).toLowerCase() : '',
  };
}

function originOf(option: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw wrong(`${option} must start with http:// or https://.`);
  if (url.pathname !== '/' || url.search !== '' || url.username !== '')
    throw wrong(`${option} must have no path, query or user name.`);
  return url.origin;
}
