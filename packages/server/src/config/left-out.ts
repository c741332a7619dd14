// Options that releases of upstream after 2.25 added, and that this server does not have.

/** Why, by their flags. The first match counts. */
export const LEFT_OUT: readonly (readonly [flags: RegExp, why: string])[] = [
  [/^ai-(gateway|budget)-/, 'the AI gateway, which comes later'],
  [/^boundary-log-retention$/, 'the agent firewall, which comes later'],
  [/chat/, 'Coder Agents, which this server does not have'],
  [/template-builder/, 'the template builder reads what --template-builder-source names, and no registry'],
  [/^cluster-host$/, 'servers find each other through the database, at --cluster-address'],
  [/^external-auth-github-default-provider-enable$/, 'there is no shared GitHub app'],
  [/^postgres-conn-max-(open|idle)$/, 'each server opens a fixed number of connections, when it needs them'],
  [/^scim-use-legacy$/, 'there is one form of SCIM'],
  [/^stats-collection-usage-stats-enable$/, 'usage is not measured: it comes from the sessions that agents report'],
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
  'networking.cluster.clusterHost',
  'pgConnMaxIdle',
  'pgConnMaxOpen',
  'retention.boundary_logs',
  'scimUseLegacy',
];
