// Options that releases of upstream after 2.25 added, and that this server does not have.

/** Why, by their flags. The first match counts. */
export const LEFT_OUT: readonly (readonly [flags: RegExp, why: string])[] = [
  [/^ai-(gateway|budget)-/, 'the AI gateway, which comes later'],
  [/^boundary-log-retention$/, 'the agent firewall, which comes later'],
  [/chat/, 'Coder Agents, which this server does not have'],
  [/template-builder/, 'the template builder, which comes later'],
  [/^cluster-host$/, 'servers find each other through the database, at --cluster-address'],
  [/^external-auth-github-default-provider-enable$/, 'there is no shared GitHub app'],
  [/^postgres-conn-max-(open|idle)$/, 'each server opens a fixed number of connections, when it needs them'],
  [/^scim-use-legacy$/, 'there is one form of SCIM'],
  [/^stats-collection-usage-stats-enable$/, 'usage is not measured: it comes from the sessions that agents report'],
  [/^host-prefix-cookie$/, 'prefixed cookies, which come later'],
  [/^oidc-redirect-url$/, 'another address for people who come back from the provider, which comes later'],
  [/^write-config$/, 'a flag of the command, which comes later'],
];

/**
 * Their keys in files that upstream's programs write, so that such a file works here. A key that ends with a dot stands
 * for all keys that begin with it.
 */
export const LEFT_OUT_KEYS: readonly string[] = [
  'ai_gateway.',
  'ai_gateway_proxy.',
  'chat.debugLoggingEnabled',
  'disableChatSharing',
  'externalAuthGithubDefaultProviderEnable',
  'introspection.statsCollection.usageStats.enable',
  'oidc.oidc-redirect-url',
  'networking.cluster.clusterHost',
  'networking.hostPrefixCookie',
  'pgConnMaxIdle',
  'pgConnMaxOpen',
  'retention.boundary_logs',
  'scimUseLegacy',
];
