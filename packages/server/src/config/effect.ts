import { AppError } from '@platform/kit';
import type { LoadedConfig } from './load.ts';
import type { OptionName } from './options.ts';

/**
 * Options that change what this server does. All published ones are accepted, so that an existing configuration starts
 * here; one that was given and is not in this list is named in the start-up log.
 */
export const EFFECTIVE: ReadonlySet<OptionName> = new Set<OptionName>([
  'accessUrl',
  'agentFallbackTroubleshootingUrl',
  'allowCustomQuietHours',
  'allowWorkspaceRenames',
  'awsInstanceIdentityCertificates',
  'azureInstanceIdentityCertificates',
  'cacheDirectory',
  'cliUpgradeMessage',
  'dangerousAllowPathAppSharing',
  'dangerousAllowPathAppSiteOwnerAccess',
  'dangerousDisableRateLimits',
  'defaultQuietHoursSchedule',
  'defaultTokenLifetime',
  'derpForceWebsockets',
  'disablePasswordAuth',
  'disablePathApps',
  'disableSessionExpiryRefresh',
  'docsUrl',
  'enableTerraformDebugMode',
  'experiments',
  'googleInstanceIdentityKeysUrl',
  'healthCheckRefresh',
  'healthCheckThresholdDatabase',
  'httpAddress',
  'logHuman',
  'logJson',
  'maxAdminTokenLifetime',
  'maxTokenLifetime',
  'oidcIconUrl',
  'oidcSignInText',
  'postgresUrl',
  'prometheusAddress',
  'prometheusEnable',
  'provisionerDaemonPsk',
  'provisionerDaemons',
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

/** The options that somebody gave and that change nothing. Throws where going on would be less safe than was asked for. */
export function givenWithoutEffect({ config, sources }: LoadedConfig): OptionName[] {
  if (config.tlsEnable) {
    throw new AppError(
      'invalid',
      'This server does not serve TLS itself: put a TLS proxy before it and leave --tls-enable out.',
    );
  }
  return (Object.keys(sources) as OptionName[]).filter(
    (name) => (sources[name] === 'flag' || sources[name] === 'env' || sources[name] === 'yaml') && !EFFECTIVE.has(name),
  );
}
