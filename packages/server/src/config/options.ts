import { withNotes } from './effect.ts';
import type { ExternalAuthProvider } from './external-auth.ts';
import type { OptionRow, OptionTypes } from './option.ts';
import { generalOptions } from './options/general.ts';
import { introspectionOptions } from './options/introspection.ts';
import { limitOptions } from './options/limits.ts';
import { mailOptions } from './options/mail.ts';
import { networkingOptions } from './options/networking.ts';
import { retentionOptions } from './options/retention.ts';
import { signInOptions } from './options/sign-in.ts';

/**
 * Every option of `coder server`, by upstream's name. One row defines flag, environment variable, YAML key, help and
 * docs.
 */
export const options = withNotes({
  accessUrl: {
    type: 'url',
    flag: 'access-url',
    env: 'CODER_ACCESS_URL',
    yaml: 'networking.accessURL',
    json: 'access_url',
    description: 'The URL where people and workspaces reach this server. Default: the HTTP address.',
    group: 'Networking',
  },
  wildcardAccessUrl: {
    type: 'string',
    flag: 'wildcard-access-url',
    env: 'CODER_WILDCARD_ACCESS_URL',
    yaml: 'networking.wildcardAccessURL',
    json: 'wildcard_access_url',
    description:
      'The host name pattern for workspace apps, for example *.example.com. It gives each app its own origin. Empty: apps have no host names.',
    group: 'Networking',
  },
  httpAddress: {
    type: 'host:port',
    flag: 'http-address',
    env: 'CODER_HTTP_ADDRESS',
    yaml: 'networking.http.httpAddress',
    json: 'http_address',
    default: '127.0.0.1:3000',
    description: 'The address that the server listens on for HTTP, as HOST:PORT.',
    group: 'Networking / HTTP',
  },
  shutdownDelay: {
    type: 'duration',
    flag: 'shutdown-delay',
    env: 'CODER_SHUTDOWN_DELAY',
    yaml: 'networking.shutdownDelay',
    default: '5s',
    description:
      'The time that the server keeps its ports open after SIGTERM, while /readyz answers with 503, so that load balancers send requests elsewhere. Set it above the time in which yours notices that. It serves for longer while builds of its built-in daemons run. A second signal ends it, and SIGINT and SIGHUP start without it.',
    group: 'Networking',
  },
  postgresUrl: {
    title: 'Postgres Connection URL',
    type: 'string',
    flag: 'postgres-url',
    env: 'CODER_PG_CONNECTION_URL',
    json: 'pg_connection_url',
    secret: true,
    description:
      'The URL of a PostgreSQL database, version 13 or later. With ?passfile=PATH, the password comes from that file, as libpq reads it. Default: a bundled PostgreSQL, with its data in the config directory.',
    group: 'Server',
  },
  cacheDirectory: {
    title: 'Cache Directory',
    type: 'string',
    flag: 'cache-dir',
    env: 'CODER_CACHE_DIRECTORY',
    yaml: 'cacheDir',
    json: 'cache_directory',
    default: '~/.cache/coder',
    description:
      'The directory for downloads, prepared template versions and running builds. You can delete it while nothing runs. When the server runs as root, the built-in daemons use it only if it belongs to root and other users can read it. Otherwise they use /var/lib/coder.',
    group: 'Server',
  },
  awsInstanceIdentityCertificates: {
    type: 'string',
    flag: 'aws-instance-identity-certificates',
    env: 'CODER_AWS_INSTANCE_IDENTITY_CERTIFICATES',
    yaml: 'instanceIdentity.awsCertificates',
    description:
      'The PEM file with further certificates that sign identity documents of Amazon machines. The known certificates stay valid.',
    group: 'Instance Identity',
  },
  azureInstanceIdentityCertificates: {
    type: 'string',
    flag: 'azure-instance-identity-certificates',
    env: 'CODER_AZURE_INSTANCE_IDENTITY_CERTIFICATES',
    yaml: 'instanceIdentity.azureCertificates',
    description:
      'The PEM file with the authorities for attested documents of Azure machines. It replaces the well-known ones.',
    group: 'Instance Identity',
  },
  googleInstanceIdentityKeysUrl: {
    type: 'url',
    flag: 'google-instance-identity-keys-url',
    env: 'CODER_GOOGLE_INSTANCE_IDENTITY_KEYS_URL',
    yaml: 'instanceIdentity.googleKeysURL',
    default: 'https://www.googleapis.com/oauth2/v3/certs',
    description: 'The URL of the public keys that sign identity tokens of Google machines, as a JSON web key set.',
    group: 'Instance Identity',
  },
  agentFallbackTroubleshootingUrl: {
    type: 'url',
    flag: 'agent-fallback-troubleshooting-url',
    env: 'CODER_AGENT_FALLBACK_TROUBLESHOOTING_URL',
    yaml: 'agentFallbackTroubleshootingURL',
    json: 'agent_fallback_troubleshooting_url',
    description: 'The URL of a help page for unhealthy agents, used when the template sets none.',
    group: 'Server',
  },
  provisionerDaemons: {
    type: 'int',
    flag: 'provisioner-daemons',
    env: 'CODER_PROVISIONER_DAEMONS',
    yaml: 'provisioning.daemons',
    json: 'provisioner.daemons',
    default: '3',
    description: 'The number of built-in provisioner daemons. Each runs one build at a time. 0: none.',
    group: 'Provisioning',
  },
  provisionerForceCancelInterval: {
    title: 'Force Cancel Interval',
    type: 'duration',
    flag: 'provisioner-force-cancel-interval',
    env: 'CODER_PROVISIONER_FORCE_CANCEL_INTERVAL',
    yaml: 'provisioning.forceCancelInterval',
    json: 'provisioner.force_cancel_interval',
    default: '10m0s',
    description: 'The time that a canceled job may take to end. After that, the server ends it.',
    group: 'Provisioning',
  },
  provisionerDaemonPsk: {
    title: 'Provisioner Daemon Pre-shared Key (PSK)',
    type: 'string',
    flag: 'provisioner-daemon-psk',
    env: 'CODER_PROVISIONER_DAEMON_PSK',
    json: 'provisioner.daemon_psk',
    secret: true,
    description:
      'The pre-shared key that external provisioner daemons of the default organization authenticate with. Empty: not accepted.',
    group: 'Provisioning',
  },
  operatorToken: {
    type: 'string',
    flag: 'operator-token',
    env: 'CODER_OPERATOR_TOKEN',
    secret: true,
    description:
      'The token that the Kubernetes operator authenticates with, of at least 32 characters. It may manage the provisioner keys of one organization, read its daemons and its queue, and nothing else. Empty: not accepted.',
    group: 'Provisioning',
  },
  operatorOrganization: {
    type: 'string',
    flag: 'operator-organization',
    env: 'CODER_OPERATOR_ORGANIZATION',
    yaml: 'provisioning.operatorOrganization',
    default: 'default',
    description: 'The name or ID of the organization of --operator-token.',
    group: 'Provisioning',
  },
  provisionerLease: {
    type: 'duration',
    flag: 'provisioner-lease',
    env: 'CODER_PROVISIONER_LEASE',
    yaml: 'provisioning.lease',
    default: '1m30s',
    description: 'The time that a daemon with a job may be silent. After that, the server treats its job as lost.',
    group: 'Provisioning',
  },
  provisionerPackageLimit: {
    type: 'int',
    flag: 'provisioner-package-limit',
    env: 'CODER_PROVISIONER_PACKAGE_LIMIT',
    yaml: 'provisioning.packageLimit',
    default: '512',
    description:
      'The most MiB of a compressed provider package that the server stores with a template version. New daemons get larger ones from their registry. 0: the server stores none.',
    group: 'Provisioning',
  },
  provisionerDrainTimeout: {
    type: 'duration',
    flag: 'provisioner-drain-timeout',
    env: 'CODER_PROVISIONER_DRAIN_TIMEOUT',
    yaml: 'provisioning.drainTimeout',
    default: '10m',
    description:
      'The time that the server waits for running builds of its built-in daemons after the first SIGTERM, SIGHUP or SIGINT. After that, it cancels them. A second signal cancels them immediately, a third one kills them. 0: the server does not wait, the builds continue without it, and the next start takes them over. Keep it above 0 in a container, where all processes end with the server.',
    group: 'Provisioning',
  },
  provisionerPendingLimit: {
    type: 'duration',
    flag: 'provisioner-pending-limit',
    env: 'CODER_PROVISIONER_PENDING_LIMIT',
    yaml: 'provisioning.pendingLimit',
    default: '30m',
    description:
      'The time that a job may wait while no matching provisioner daemon is online. After that, it fails with the reason. 0: no limit.',
    group: 'Provisioning',
  },
  terraformBinary: {
    type: 'string[]',
    flag: 'terraform-binary',
    env: 'CODER_TERRAFORM_BINARY',
    yaml: 'provisioning.terraformBinary',
    description:
      'The paths of terraform or tofu programs for the built-in daemons. A job uses the first whose version its template allows. Default: terraform on PATH if its version is supported, otherwise a downloaded one.',
    group: 'Provisioning',
  },
  terraformDownload: {
    type: 'string[]',
    flag: 'terraform-download',
    env: 'CODER_TERRAFORM_DOWNLOAD',
    yaml: 'provisioning.terraformDownload',
    description:
      'The terraform or tofu programs that the built-in daemons download at their start, as VERSION=URL#sha256:HEX. The URL is that of a program, or of a zip archive with one. HEX is the SHA-256 of that file. A job uses them after those of --terraform-binary.',
    group: 'Provisioning',
  },
  terraformProvider: {
    type: 'string',
    flag: 'terraform-provider',
    env: 'CODER_TERRAFORM_PROVIDER',
    yaml: 'provisioning.terraformProvider',
    default: 'built-in',
    values: ['built-in', 'registry'],
    description:
      "The coder provider of templates in the built-in daemons. built-in: the daemons' own. registry: the one that Terraform installs from its registry or a mirror.",
    group: 'Provisioning',
  },
  terraformDownloadUrl: {
    type: 'url',
    flag: 'terraform-download-url',
    env: 'CODER_TERRAFORM_DOWNLOAD_URL',
    yaml: 'provisioning.terraformDownloadURL',
    default: 'https://releases.hashicorp.com',
    description:
      'The URL that terraform is downloaded from when PATH has no supported version. The server accepts only checksums that it knows.',
    group: 'Provisioning',
  },
  logHuman: {
    title: 'Human Log Location',
    type: 'string',
    flag: 'log-human',
    env: 'CODER_LOGGING_HUMAN',
    yaml: 'introspection.logging.humanPath',
    json: 'logging.human',
    default: '/dev/stderr',
    description: 'The file for human-readable logs. Empty: none.',
    group: 'Introspection / Logging',
  },
  logJson: {
    title: 'JSON Log Location',
    type: 'string',
    flag: 'log-json',
    env: 'CODER_LOGGING_JSON',
    yaml: 'introspection.logging.jsonPath',
    json: 'logging.json',
    description: 'The file for logs as JSON lines. Empty: none.',
    group: 'Introspection / Logging',
  },
  verbose: {
    type: 'bool',
    flag: 'verbose',
    short: 'v',
    env: 'CODER_VERBOSE',
    yaml: 'verbose',
    json: 'verbose',
    default: 'false',
    description: 'Whether to log at debug level.',
    group: 'Introspection / Logging',
  },
  enableTerraformDebugMode: {
    title: 'Enable Terraform debug mode',
    type: 'bool',
    flag: 'enable-terraform-debug-mode',
    env: 'CODER_ENABLE_TERRAFORM_DEBUG_MODE',
    yaml: 'introspection.logging.enableTerraformDebugMode',
    json: 'enable_terraform_debug_mode',
    default: 'false',
    description: "Whether administrators may request Terraform's debug output for a build.",
    group: 'Introspection / Logging',
  },
  allowWorkspaceRenames: {
    type: 'bool',
    flag: 'allow-workspace-renames',
    env: 'CODER_ALLOW_WORKSPACE_RENAMES',
    yaml: 'allowWorkspaceRenames',
    json: 'allow_workspace_renames',
    default: 'false',
    description:
      'Whether people may rename their workspaces. A rename can make Terraform recreate resources that are named after the workspace.',
    group: 'Server',
  },
  sessionDuration: {
    type: 'duration',
    flag: 'session-duration',
    env: 'CODER_SESSION_DURATION',
    yaml: 'networking.http.sessionDuration',
    json: 'session_lifetime.default_duration',
    default: '24h0m0s',
    description: 'The lifetime of a sign-in session after its last use.',
    group: 'Networking / HTTP',
  },
  maxTokenLifetime: {
    type: 'duration',
    flag: 'max-token-lifetime',
    env: 'CODER_MAX_TOKEN_LIFETIME',
    yaml: 'networking.http.maxTokenLifetime',
    json: 'session_lifetime.max_token_lifetime',
    default: '876600h0m0s',
    description: 'The longest lifetime of an API token.',
    group: 'Networking / HTTP',
  },
  maxAdminTokenLifetime: {
    title: 'Maximum Admin Token Lifetime',
    type: 'duration',
    flag: 'max-admin-token-lifetime',
    env: 'CODER_MAX_ADMIN_TOKEN_LIFETIME',
    yaml: 'networking.http.maxAdminTokenLifetime',
    json: 'session_lifetime.max_admin_token_lifetime',
    default: '168h0m0s',
    description: 'The longest lifetime of an API token of an owner.',
    group: 'Networking / HTTP',
  },
  defaultTokenLifetime: {
    type: 'duration',
    flag: 'default-token-lifetime',
    env: 'CODER_DEFAULT_TOKEN_LIFETIME',
    yaml: 'defaultTokenLifetime',
    json: 'session_lifetime.default_token_lifetime',
    default: '168h0m0s',
    description: 'The lifetime of an API token that is created without one.',
    group: 'Networking / HTTP',
  },
  apiRateLimit: {
    type: 'int',
    flag: 'api-rate-limit',
    env: 'CODER_API_RATE_LIMIT',
    yaml: 'networking.http.apiRateLimit',
    json: 'rate_limit.api',
    default: '512',
    description:
      'The requests per minute that a person, or an address without a session, may send to a route of the API. 0 or less: no limit.',
    group: 'Networking / HTTP',
  },
  dangerousDisableRateLimits: {
    title: 'Disable All Rate Limits',
    type: 'bool',
    flag: 'dangerous-disable-rate-limits',
    env: 'CODER_DANGEROUS_DISABLE_RATE_LIMITS',
    yaml: 'networking.http.disableRateLimits',
    json: 'rate_limit.disable_all',
    default: 'false',
    hidden: true,
    description: 'Whether to disable all rate limits, for load tests.',
    group: 'Networking / HTTP',
  },
  ...networkingOptions,
  ...introspectionOptions,
  ...limitOptions,
  ...signInOptions,
  ...mailOptions,
  ...retentionOptions,
  ...generalOptions,
} as const satisfies Record<string, OptionRow>);

export type OptionName = keyof typeof options;

/** The parsed options, created once at start. */
export type Config = { [K in OptionName]: OptionTypes[(typeof options)[K]['type']] } & {
  /** Read from numbered variables and the YAML file: they have no flags. */
  externalAuth: readonly ExternalAuthProvider[];
};
