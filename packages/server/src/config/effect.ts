import { AppError } from '@platform/kit';
import type { LoadedConfig } from './load.ts';
import type { OptionRow } from './option.ts';
import type { OptionName } from './options.ts';

/**
 * Options that change what this server does; those that it only stores and shows are not among them. All options of
 * upstream are accepted, so that an existing configuration starts here. The start-up log names each given option that is
 * not in this list.
 */
export const EFFECTIVE: ReadonlySet<OptionName> = new Set<OptionName>([
  'accessUrl',
  'agentFallbackTroubleshootingUrl',
  'allowWorkspaceRenames',
  'awsInstanceIdentityCertificates',
  'azureInstanceIdentityCertificates',
  'browserOnly',
  'cacheDirectory',
  'cliUpgradeMessage',
  'dangerousAllowPathAppSharing',
  'dangerousAllowPathAppSiteOwnerAccess',
  'dangerousDisableRateLimits',
  'defaultTokenLifetime',
  'disablePasswordAuth',
  'disablePathApps',
  'disableSessionExpiryRefresh',
  'docsUrl',
  'enableTerraformDebugMode',
  'googleInstanceIdentityKeysUrl',
  'healthCheckRefresh',
  'healthCheckThresholdDatabase',
  'httpAddress',
  'logHuman',
  'logJson',
  'maxAdminTokenLifetime',
  'maxTokenLifetime',
  'postgresUrl',
  'prometheusAddress',
  'prometheusEnable',
  'proxyTrustedHeaders',
  'proxyTrustedOrigins',
  'provisionerDaemonPsk',
  'provisionerDaemons',
  'provisionerDrainTimeout',
  'provisionerForceCancelInterval',
  'provisionerLease',
  'provisionerPendingLimit',
  'samesiteAuthCookie',
  'secureAuthCookie',
  'sessionDuration',
  'sshConfigOptions',
  'sshHostnamePrefix',
  'supportLinks',
  'terraformBinary',
  'terraformDownloadUrl',
  'termsOfServiceUrl',
  'verbose',
  'wildcardAccessUrl',
  'workspaceHostnameSuffix',
]);

/** Options whose absence would leave an installation less safe than was asked for: the server does not start with them. */
const REFUSED: Partial<Record<OptionName, string>> = {
  tlsEnable: 'This server does not serve TLS itself: put a TLS proxy before it and leave --tls-enable out.',
  disableOwnerWorkspaceAccess:
    "This server can not keep owners out of other people's workspaces yet: leave --disable-owner-workspace-access out.",
};

/** The rows with a word at the end of what they say where an option does not do it. */
export function withNotes<T extends Record<string, OptionRow>>(rows: T): T {
  const noted: Record<string, OptionRow> = {};
  for (const [name, row] of Object.entries(rows)) {
    const note =
      name in REFUSED ? ' (refused: not there yet)' : EFFECTIVE.has(name as OptionName) ? '' : ' (no effect yet)';
    noted[name] = note === '' ? row : { ...row, description: `${row.description}${note}` };
  }
  return noted as T;
}

/** The options that somebody gave and that change nothing. Throws where going on would be less safe than was asked for. */
export function givenWithoutEffect({ config, sources }: LoadedConfig): OptionName[] {
  for (const name of Object.keys(REFUSED) as OptionName[]) {
    if (config[name]) throw new AppError('invalid', REFUSED[name]!);
  }
  return (Object.keys(sources) as OptionName[]).filter(
    (name) => (sources[name] === 'flag' || sources[name] === 'env' || sources[name] === 'yaml') && !EFFECTIVE.has(name),
  );
}
