import type { LoadedConfig } from './load.ts';
import type { OptionRow } from './option.ts';
import type { OptionName } from './options.ts';

/**
 * Options that change what this server does, without those that it only stores and shows. The server accepts all of
 * upstream's options, so that an existing configuration works. The start-up log names each configured option that is not
 * in this list.
 */
export const EFFECTIVE: ReadonlySet<OptionName> = new Set<OptionName>([
  'accessUrl',
  'additionalCspPolicy',
  'agentFallbackTroubleshootingUrl',
  'allowWorkspaceRenames',
  'auditLogsRetention',
  'awsInstanceIdentityCertificates',
  'azureInstanceIdentityCertificates',
  'browserOnly',
  'cacheDirectory',
  'cliUpgradeMessage',
  'connectionLogsRetention',
  'dangerousAllowPathAppSharing',
  'dangerousAllowPathAppSiteOwnerAccess',
  'dangerousDisableRateLimits',
  'dangerousOidcSkipIssuerChecks',
  'defaultTokenLifetime',
  'disableOwnerWorkspaceAccess',
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
  'oauth2GithubAllowEveryone',
  'oauth2GithubAllowSignups',
  'oauth2GithubAllowedOrgs',
  'oauth2GithubAllowedTeams',
  'oauth2GithubClientId',
  'oauth2GithubClientSecret',
  'oauth2GithubDeviceFlow',
  'oauth2GithubEnterpriseBaseUrl',
  'oidcAllowSignups',
  'oidcAllowedGroups',
  'oidcAuthUrlParams',
  'oidcClientCertFile',
  'oidcClientId',
  'oidcClientKeyFile',
  'oidcClientSecret',
  'oidcEmailDomain',
  'oidcEmailField',
  'oidcGroupAutoCreate',
  'oidcGroupField',
  'oidcGroupMapping',
  'oidcGroupRegexFilter',
  'oidcIconUrl',
  'oidcIgnoreEmailVerified',
  'oidcIgnoreUserinfo',
  'oidcIssuerUrl',
  'oidcNameField',
  'oidcScopes',
  'oidcSignInText',
  'oidcSignupsDisabledText',
  'oidcUserRoleDefault',
  'oidcUserRoleField',
  'oidcUserRoleMapping',
  'oidcUsernameField',
  'postgresUrl',
  'prometheusAddress',
  'prometheusEnable',
  'provisionerDaemonPsk',
  'provisionerDaemons',
  'provisionerDrainTimeout',
  'provisionerForceCancelInterval',
  'provisionerLease',
  'provisionerPendingLimit',
  'proxyTrustedHeaders',
  'proxyTrustedOrigins',
  'redirectToAccessUrl',
  'samesiteAuthCookie',
  'secureAuthCookie',
  'sessionDuration',
  'sshConfigOptions',
  'sshHostnamePrefix',
  'strictTransportSecurity',
  'strictTransportSecurityOptions',
  'supportLinks',
  'termsOfServiceUrl',
  'terraformBinary',
  'terraformDownloadUrl',
  'tlsAddress',
  'tlsAllowInsecureCiphers',
  'tlsCertFile',
  'tlsCiphers',
  'tlsClientAuth',
  'tlsClientCaFile',
  'tlsEnable',
  'tlsKeyFile',
  'tlsMinVersion',
  'verbose',
  'wildcardAccessUrl',
  'workspaceHostnameSuffix',
]);

/** The rows, with a note in the description of each option that the server ignores. */
export function withNotes<T extends Record<string, OptionRow>>(rows: T): T {
  const noted: Record<string, OptionRow> = {};
  for (const [name, row] of Object.entries(rows)) {
    noted[name] = EFFECTIVE.has(name as OptionName)
      ? row
      : { ...row, description: `${row.description} (no effect yet)` };
  }
  return noted as T;
}

/** The configured options that have no effect. */
export function givenWithoutEffect({ sources }: Pick<LoadedConfig, 'sources'>): OptionName[] {
  return (Object.keys(sources) as OptionName[]).filter(
    (name) => (sources[name] === 'flag' || sources[name] === 'env' || sources[name] === 'yaml') && !EFFECTIVE.has(name),
  );
}
