import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Facts of the upstream platform as data: names, types and shapes without prose. REST and command line are those of
 * version 2.25 (mid 2025) and 2.36 (August 2026), the provider schema that of coder/coder 2.15. Tests compare this project with them. Nothing
 * loads them at run time.
 */

export interface UpstreamOperation {
  tag: string;
  parameters: { name: string; in: string; schema?: object }[];
  /** Status → Swagger 2 schema, `{}` if the answer has no JSON body. */
  responses: Record<string, object>;
}

export interface UpstreamRest {
  basePath: string;
  /** Path → lower-case method → operation. */
  paths: Record<string, Record<string, UpstreamOperation>>;
  definitions: Record<string, { type?: string; required?: string[]; properties?: Record<string, object> }>;
}

export interface UpstreamFlag {
  name: string;
  short?: string;
  /** `bool`, `string`, `string[]`, `int`, `duration`, `url`, alternatives such as `table/json`, or `cols` for columns. */
  type: string;
  default?: string;
  env?: string;
}

export interface UpstreamCommand {
  /** The words after `coder`. Empty for the global flags. */
  command: string;
  hidden?: boolean;
  arguments?: string;
  aliases?: string[];
  flags: UpstreamFlag[];
}

export interface UpstreamServerOption {
  flag: string;
  /** Upstream's clients find the option by it in `deployment/config`. */
  name: string;
  /** The names of its group and the group's parents, outermost first, joined with ` / `. */
  group?: string;
  /** Of an enum, whose value is `{Choices, Value}`. */
  choices?: string[];
  annotations?: string[];
  short?: string;
  type: string;
  env: string;
  yaml: string;
  default?: string;
}

/**
 * A call of upstream's Go client: the path has `{}` for each parameter. By version, the statuses that the client takes for
 * success. The list of a version is empty if the client does not look, and absent if it has no such call.
 */
export interface UpstreamClientCall {
  method: string;
  path: string;
  '2.25'?: number[];
  '2.36'?: number[];
}

export interface UpstreamMetric {
  type: string;
  labels: string[];
  /** Whether upstream's public dashboards or alert rules use it. */
  shown?: true;
}

function load<T>(name: string): T {
  return JSON.parse(readFileSync(join(import.meta.dirname, `${name}.json`), 'utf8')) as T;
}

export const REST_VERSIONS = ['2.25', '2.36'] as const;
const REST_FILES = { '2.25': 'rest-api', '2.36': 'rest-api-2.36' } as const;

export function upstreamRest(version: (typeof REST_VERSIONS)[number] = '2.25'): UpstreamRest {
  const rest = load<UpstreamRest>(REST_FILES[version]);
  Object.assign(rest.definitions, MISDOCUMENTED_TYPES);
  for (const [name, fields] of Object.entries(NO_LONGER_REQUIRED)) {
    const definition = rest.definitions[name]!;
    definition.required = definition.required?.filter((field) => !fields.includes(field)) ?? [];
  }
  const tagged = TAGGED_SINCE[version];
  for (const [name, fields] of Object.entries(UNTAGGED_TYPES).filter(([type]) => !tagged.includes(type))) {
    const definition = rest.definitions[name];
    if (!definition) throw new Error(`no definition ${name}`);
    rest.definitions[name] = withNames(definition, new Map(fields.map((field) => [field.toLowerCase(), field])));
  }
  return rest;
}

interface Definition {
  properties?: Record<string, Definition>;
  items?: Definition;
}

/** A definition, and those inside of it, with other names for its properties. `names` has them by their lower case. */
function withNames(definition: Definition, names: ReadonlyMap<string, string>): object {
  const { properties, items } = definition;
  return {
    ...definition,
    ...(items ? { items: withNames(items, names) } : {}),
    ...(properties
      ? {
          properties: Object.fromEntries(
            Object.entries(properties).map(([key, schema]) => [
              names.get(key.toLowerCase()) ?? key,
              withNames(schema, names),
            ]),
          ),
        }
      : {}),
  };
}
export const upstreamCommands = () => load<UpstreamCommand[]>('commands');
/** What releases after 2.25 up to 2.36 added: commands, and flags of older commands. Also their hidden commands. */
export const upstreamNewerCommands = () => load<UpstreamCommand[]>('commands-2.36');
export const upstreamServerOptions = () => load<UpstreamServerOption[]>('server-options');
/** The options that releases after 2.25 up to 2.36 added. */
export const upstreamNewerServerOptions = () =>
  load<Pick<UpstreamServerOption, 'flag' | 'type' | 'default'>[] & { env?: string; yaml?: string }[]>(
    'server-options-2.36',
  );
/** Keys whose values Go's programs send as text, such as `workspace:<uuid>`, although their types have fields. */
const TEXTS: ReadonlyMap<string, readonly string[]> = new Map([['POST /users/{}/keys/tokens', ['allow_list']]]);

/**
 * The keys of bodies by route, with `{}` for each parameter of the path: those that upstream's Go clients of any version
 * from 2.0 to 2.36 send, and its dashboards where they send more. Keys within other keys are joined with dots.
 */
export function upstreamBodyKeys(): Record<string, string[]> {
  const found = Object.entries(load<Record<string, string[]>>('body-keys'));
  const isPart = (route: string, name: string) => (TEXTS.get(route) ?? []).some((text) => name.startsWith(`${text}.`));
  return Object.fromEntries(found.map(([route, names]) => [route, names.filter((name) => !isPart(route, name))]));
}
export const upstreamClientCalls = () => load<UpstreamClientCall[]>('client-calls');
/** The metrics that upstream 2.36 documents, by name. */
export const upstreamMetrics = () => load<Record<string, UpstreamMetric>>('metrics-2.36');
/** In the form of `terraform providers schema -json`, for one provider. */
export const upstreamProviderSchema = () => load<Record<string, object>>('provider-schema');

/** Fields that upstream requires in 2.25 and no longer in 2.36. */
const NO_LONGER_REQUIRED: Readonly<Record<string, readonly string[]>> = {
  // the older name of a token's scope, which tokens with several have not
  'codersdk.APIKey': ['scope'],
};

/** Those of `UNTAGGED_TYPES` whose fields have JSON names by then. */
const TAGGED_SINCE: Readonly<Record<(typeof REST_VERSIONS)[number], readonly string[]>> = {
  '2.25': [],
  '2.36': ['agentsdk.ReinitializationEvent'],
};

/** Types that upstream's API document describes by Go's fields, and the form that Go programs send. */
const MISDOCUMENTED_TYPES: UpstreamRest['definitions'] = {
  // keys are written as text
  'key.NodePublic': { type: 'string' },
  'uuid.NullUUID': { type: 'string' },
  // upstream has had one more font since its version 2.32
  'codersdk.TerminalFontName': { type: 'string' },
  // upstream's programs accept any text, and this server records more types of resources
  'codersdk.ResourceType': { type: 'string' },
  // upstream has had the action "share" since its version 2.27
  'codersdk.RBACAction': { type: 'string' },
  'regexp.Regexp': { type: 'string' },
  // written as `<type>:<id>`
  'codersdk.APIAllowListTarget': { type: 'string' },
};

/**
 * Go structs whose fields have no JSON names. Go programs write the fields' own names, which upstream's document changes,
 * and read them in any case.
 */
export const UNTAGGED_TYPES: Readonly<Record<string, readonly string[]>> = {
  'agentsdk.ReinitializationEvent': ['WorkspaceID'],
  'codersdk.PatchGroupIDPSyncMappingRequest': ['Add', 'Remove', 'Given', 'Gets'],
  'codersdk.PatchOrganizationIDPSyncMappingRequest': ['Add', 'Remove', 'Given', 'Gets'],
  'codersdk.PatchRoleIDPSyncMappingRequest': ['Add', 'Remove', 'Given', 'Gets'],
  'codersdk.Preset': ['ID', 'Name', 'Parameters', 'Default', 'DesiredPrebuildInstances', 'Description', 'Icon'],
  'codersdk.PresetParameter': ['Name', 'Value'],
  'codersdk.SSHConfig': ['DeploymentName', 'SSHConfigOptions'],
  'codersdk.TransitionStats': ['P50', 'P95'],
  'codersdk.WorkspaceConnectionLatencyMS': ['P50', 'P95'],
  'healthsdk.STUNReport': ['Enabled', 'CanSTUN', 'Error'],
  'netcheck.Report': [
    ...['UDP', 'IPv6', 'IPv4', 'IPv6CanSend', 'IPv4CanSend', 'OSHasIPv6', 'ICMPv4', 'MappingVariesByDestIP'],
    ...['HairPinning', 'UPnP', 'PMP', 'PCP', 'PreferredDERP', 'RegionLatency', 'RegionV4Latency', 'RegionV6Latency'],
    ...['GlobalV4', 'GlobalV6', 'CaptivePortal'],
  ],
  'tailcfg.DERPHomeParams': ['RegionScore'],
  'tailcfg.DERPMap': ['HomeParams', 'Regions'],
  'tailcfg.DERPNode': [
    ...['Name', 'RegionID', 'HostName', 'CertName', 'IPv4', 'IPv6', 'STUNPort', 'STUNOnly', 'DERPPort'],
    ...['InsecureForTests', 'ForceHTTP', 'STUNTestIP', 'CanPort80'],
  ],
  'tailcfg.DERPRegion': ['EmbeddedRelay', 'RegionID', 'RegionCode', 'RegionName', 'Avoid', 'Nodes'],
};

/** Routes that upstream documents and serves outside of /api/v2. The server's own tests cover them. */
export const ELSEWHERE = /^\/(?:scim\/v2|oauth2|\.well-known)\//;

/** Routes that upstream's API document describes wrongly, and the form that upstream's programs send and read. */
export const MISDOCUMENTED: Readonly<Record<string, string>> = {
  'GET /experiments': 'names of other versions, too',
  'GET /experiments/available': 'an object, not a list',
  'GET /organizations/{organization}/paginated-members': 'an object, not a list',
  'GET /notifications/dispatch-methods': 'an object, not a list',
  'PUT /notifications/inbox/{id}/read-status': 'the notification and the number of unread ones',
  'GET /templates/{template}/versions/{templateversionname}': 'one version, not a list',
  'GET /workspaceproxies': 'an object, not a list',
  'POST /workspaceproxies': 'the proxy and its token, not the proxy',
  'PATCH /workspaceproxies/{workspaceproxy}': 'the proxy and its token, not the proxy',
  'POST /oauth2-provider/apps/{app}/secrets': 'one secret, not a list',
  'GET /users/{user}/quiet-hours': 'an object, not a list',
  'PUT /users/{user}/quiet-hours': 'an object, not a list',
  'GET /templates/{template}/acl/available': 'an object, not a list',
  'POST /organizations/{organization}/members/roles': 'one role, not a list',
  'PUT /organizations/{organization}/members/roles': 'one role, not a list',
  'DELETE /organizations/{organization}/members/roles/{roleName}': 'no body',
  'DELETE /groups/{group}': 'a message, not the group',
  'GET /users/{user}/roles': 'an object with roles, not a user',
  'GET /deployment/config': "URLs, addresses and patterns are strings, not Go's structs",
  'POST /audit/testgenerate': 'additional_fields is an object, not the bytes of its JSON',
  'GET /workspacebuilds/{workspacebuild}/state': 'the bytes of the state, not a build',
};

/** Why routes of upstream are missing here, by their paths. */
export const MISSING_FEATURES: readonly (readonly [paths: RegExp, why: string])[] = [
  [/^\/api\/experimental\/(chats|users\/\{user\}\/skills)/, 'Coder Agents, which this server does not have'],
  [/^\/(ai|ai-gateway)\/|\/ai\//, 'the AI gateway, which comes later'],
  [/^\/agent-firewall\//, 'the agent firewall, which comes later'],
  [/^\/licenses/, 'licenses: nothing needs one'],
  [/^\/workspaceproxies\/me\/coordinate/, 'the tailnet through workspace proxies, which comes later'],
  [/^\/debug\//, "the insides of upstream's Go program"],
  [/\/available-users$/, 'names of people, which the list of members has'],
  [/\/startup-logs$/, 'the older name of a route that exists'],
  [/\/agent-connection-watch$/, 'a stream that only Coder Agents use'],
];
