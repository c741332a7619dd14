import { AppError } from '@platform/kit';
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
  'samesiteAuthCookie',
  'secureAuthCookie',
  'sessionDuration',
  'sshConfigOptions',
  'sshHostnamePrefix',
  'supportLinks',
  'termsOfServiceUrl',
  'terraformBinary',
  'terraformDownloadUrl',
  'verbose',
  'wildcardAccessUrl',
  'workspaceHostnameSuffix',
]);

/**
 * Options that cannot be ignored, because the installation would be less safe than configured. The server does not
 * start with them.
 */
const REJECTED: Partial<Record<OptionName, string>> = {
  tlsEnable: 'This server does not support --tls-enable. Remove it and use a TLS proxy in front of the server.',
};

/** The rows, with a note in the description of each option that the server ignores or rejects. */
export function withNotes<T extends Record<string, OptionRow>>(rows: T): T {
  const noted: Record<string, OptionRow> = {};
  for (const [name, row] of Object.entries(rows)) {
    const note =
      name in REJECTED ? ' (rejected: not supported yet)' : EFFECTIVE.has(name as OptionName) ? '' : ' (no effect yet)';
    noted[name] = note === '' ? row : { ...row, description: `${row.description}${note}` };
  }
  return noted as T;
}

/** The configured options that have no effect. Throws for an option that the server must not ignore. */
export function givenWithoutEffect({ config, sources }: LoadedConfig): OptionName[] {
  for (const name of Object.keys(REJECTED) as OptionName[]) {
    if (config[name]) throw new AppError('invalid', REJECTED[name]!);
  }
  return (Object.keys(sources) as OptionName[]).filter(
    (name) => (sources[name] === 'flag' || sources[name] === 'env' || sources[name] === 'yaml') && !EFFECTIVE.has(name),
  );
}
