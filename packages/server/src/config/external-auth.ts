/**
 * The external auth providers: services such as Git hosts, with which people connect their own accounts. An
 * administrator configures them with variables that have a number, or as a list in the YAML file. Each type has
 * defaults, so that most providers need only an id, a client id and a client secret.
 */
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { compile } from '@ropewalk/kit/re2';

export interface ExternalAuthProvider {
  /** Names the provider in templates, routes and commands. */
  id: string;
  type: string;
  client_id: string;
  client_secret: string;
  auth_url: string;
  token_url: string;
  /** Answers 200 for a valid token and 401 for any other. Empty: tokens count as valid until they expire. */
  validate_url: string;
  revoke_url: string;
  app_install_url: string;
  app_installations_url: string;
  device_flow: boolean;
  device_code_url: string;
  no_refresh: boolean;
  scopes: string[];
  /** Fields of the token's answer that are stored for `coder external-auth access-token --extra`. */
  extra_token_keys: string[];
  /** Matches the URLs of the repositories that need this account. Empty: none. */
  regex: string;
  display_name: string;
  display_icon: string;
  /** Whether the provider verifies that the same server starts and ends a sign-in (PKCE with S256). */
  pkce: boolean;
}

type Settings = Partial<ExternalAuthProvider>;

const TEXTS = [
  'id',
  'type',
  'client_id',
  'client_secret',
  'auth_url',
  'token_url',
  'validate_url',
  'revoke_url',
  'app_install_url',
  'app_installations_url',
  'device_code_url',
  'regex',
  'display_name',
  'display_icon',
] as const;
const SWITCHES = ['device_flow', 'no_refresh', 'pkce'] as const;
const LISTS = ['scopes', 'extra_token_keys'] as const;
const URLS = TEXTS.filter((name) => name.endsWith('_url'));
const KNOWN: readonly string[] = [...TEXTS, ...SWITCHES, ...LISTS];

const wrong = (from: string, why: string) => new AppError('invalid', `Invalid value for ${from}: ${why}`);
const hostRegex = (host: string) => `^(https?://)?${host.replaceAll('.', '\\.')}(/.*)?$`;

/** What the defaults of a type depend on. */
interface Configured {
  given: Settings;
  /** The host of the configured `auth_url`, or of `origin` without one, and the URLs there. */
  at(origin: string): { path(text: string): string; host: string };
}

/** The defaults of each type. */
const DEFAULTS: Readonly<Record<string, (configured: Configured) => Settings>> = {
  github: ({ at, given: { client_id = '' } }) => {
    const { path, host } = at('https://github.com');
    const api = host === 'github.com' ? 'https://api.github.com' : path('/api/v3');
    return {
      auth_url: path('/login/oauth/authorize'),
      token_url: path('/login/oauth/access_token'),
      validate_url: `${api}/user`,
      revoke_url: `${api}/applications/${encodeURIComponent(client_id)}/grant`,
      app_installations_url: `${api}/user/installations`,
      device_code_url: path('/login/device/code'),
      display_name: 'GitHub',
      display_icon: '/icon/github.svg',
      regex: hostRegex(host),
      scopes: ['repo', 'workflow'],
      pkce: true,
    };
  },
  gitlab: ({ at }) => {
    const { path, host } = at('https://gitlab.com');
    return {
      auth_url: path('/oauth/authorize'),
      token_url: path('/oauth/token'),
      validate_url: path('/oauth/token/info'),
      revoke_url: path('/oauth/revoke'),
      display_name: 'GitLab',
      display_icon: '/icon/gitlab.svg',
      regex: hostRegex(host),
      scopes: ['write_repository', 'read_api'],
      pkce: true,
    };
  },
  gitea: ({ at }) => {
    const { path, host } = at('https://gitea.com');
    return {
      auth_url: path('/login/oauth/authorize'),
      token_url: path('/login/oauth/access_token'),
      validate_url: path('/login/oauth/userinfo'),
      display_name: 'Gitea',
      display_icon: '/icon/gitea.svg',
      regex: hostRegex(host),
      scopes: ['read:repository', 'write:repository', 'read:user'],
      pkce: true,
    };
  },
  'bitbucket-cloud': () => ({
    auth_url: 'https://bitbucket.org/site/oauth2/authorize',
    token_url: 'https://bitbucket.org/site/oauth2/access_token',
    validate_url: 'https://api.bitbucket.org/2.0/user',
    display_name: 'BitBucket',
    display_icon: '/icon/bitbucket.svg',
    regex: hostRegex('bitbucket.org'),
    scopes: ['account', 'repository:write'],
  }),
  'bitbucket-server': ({ at }) => {
    const { path, host } = at('');
    return {
      token_url: path('/rest/oauth2/latest/token'),
      validate_url: path('/rest/api/latest/inbox/pull-requests/count'),
      display_name: 'Bitbucket Server',
      display_icon: '/icon/bitbucket.svg',
      regex: host && hostRegex(host),
      scopes: ['PUBLIC_REPOS', 'REPO_READ', 'REPO_WRITE'],
    };
  },
  'azure-devops': () => ({
    auth_url: 'https://app.vssps.visualstudio.com/oauth2/authorize',
    token_url: 'https://app.vssps.visualstudio.com/oauth2/token',
    display_name: 'Azure DevOps',
    display_icon: '/icon/azure-devops.svg',
    regex: hostRegex('dev.azure.com'),
    scopes: ['vso.code_write'],
  }),
  'azure-devops-entra': ({ at, given: { auth_url = '' } }) => {
    const { path } = at('');
    const tenant = /^\/([^/]+)\/oauth2\/authorize$/.exec(URL.canParse(auth_url) ? new URL(auth_url).pathname : '')?.[1];
    return {
      token_url: tenant === undefined ? '' : path(`/${tenant}/oauth2/token`),
      display_name: 'Azure DevOps (Entra)',
      display_icon: '/icon/azure-devops.svg',
      regex: hostRegex('dev.azure.com'),
    };
  },
  jfrog: ({ at, given: { client_id = '' } }) => {
    const { path } = at('');
    return {
      token_url: path(`/access/api/v1/integrations/${encodeURIComponent(client_id)}/token`),
      validate_url: path('/access/api/v1/system/ping'),
      display_name: 'JFrog Artifactory',
      display_icon: '/icon/jfrog.svg',
      scopes: ['applied-permissions/user'],
    };
  },
  slack: () => ({
    auth_url: 'https://slack.com/oauth/v2/authorize',
    token_url: 'https://slack.com/api/oauth.v2.access',
    revoke_url: 'https://slack.com/api/auth.revoke',
    display_name: 'Slack',
    display_icon: '/icon/slack.svg',
    extra_token_keys: ['authed_user'],
  }),
};

function defaultsOf(given: Settings): Settings {
  const { type = '', auth_url = '' } = given;
  const at = (origin: string) => {
    const base = URL.canParse(auth_url) ? auth_url : origin;
    const path = (text: string) => (base === '' ? '' : new URL(text, base).href);
    return { path, host: base === '' ? '' : new URL(base).host };
  };
  return ownValue(DEFAULTS, type)?.({ given, at }) ?? {};
}

/** Fills in the defaults of the type. @throws AppError `invalid` that names the missing or wrong setting */
function complete(given: Settings, from: string): ExternalAuthProvider {
  const type = given.type ?? '';
  if (type === '') throw wrong(from, 'set its type, such as "github". Use "custom" for any other OAuth 2.0 provider');
  const defaults = defaultsOf(given);
  const provider = {
    ...Object.fromEntries(TEXTS.map((name) => [name, given[name] || defaults[name] || ''])),
    ...Object.fromEntries(SWITCHES.map((name) => [name, given[name] ?? defaults[name] ?? false])),
    ...Object.fromEntries(LISTS.map((name) => [name, given[name] ?? defaults[name] ?? []])),
  } as unknown as ExternalAuthProvider;
  provider.id ||= type;
  provider.display_name ||= provider.id;
  const missing = (name: string) => wrong(from, `set its ${name}`);
  if (!/^[a-zA-Z0-9]+(?:[-_.][a-zA-Z0-9]+)*$/.test(provider.id)) {
    throw wrong(from, `the id ${JSON.stringify(provider.id)} must have only letters and digits, separated by - _ or .`);
  }
  if (provider.client_id === '') throw missing('client id');
  if (provider.client_secret === '' && !provider.device_flow) throw missing('client secret');
  if (provider.device_flow) {
    if (provider.device_code_url === '') throw missing('device code URL, which the device flow needs');
  } else if (provider.auth_url === '') throw missing('auth URL');
  if (provider.token_url === '') throw missing('token URL');
  for (const name of URLS) {
    const url = provider[name];
    if (url !== '' && !(URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))) {
      throw wrong(from, `its ${name} ${JSON.stringify(url)} is not a URL that starts with https://`);
    }
  }
  if (provider.regex !== '') {
    try {
      compile(provider.regex);
    } catch (err) {
      throw wrong(from, `its regex ${JSON.stringify(provider.regex)} is not valid: ${(err as Error).message}`);
    }
  }
  return provider;
}

function readSwitch(value: unknown, from: string): boolean {
  const text = String(value);
  if (/^(true|1|t|yes|on)$/i.test(text)) return true;
  if (/^(false|0|f|no|off|)$/i.test(text)) return false;
  throw wrong(from, `${JSON.stringify(text)} is not true or false`);
}

const VARIABLE = /^CODER_(?:EXTERNAL_AUTH|GITAUTH)_(\d+)_([A-Z_]+)$/;

/** The settings of each numbered provider, in the order of the numbers. Other names of such variables are ignored. */
function fromEnvironment(env: NodeJS.ProcessEnv): { given: Settings; from: string }[] {
  const found = new Map<string, Settings>();
  for (const [name, value = ''] of Object.entries(env)) {
    const [, number, key = ''] = VARIABLE.exec(name) ?? [];
    const setting = key.toLowerCase();
    if (number === undefined || !KNOWN.includes(setting)) continue;
    const prefix = name.slice(0, -key.length);
    const given: Record<string, unknown> = found.get(prefix) ?? {};
    found.set(prefix, given);
    if ((SWITCHES as readonly string[]).includes(setting)) given[setting] = readSwitch(value, name);
    else if ((LISTS as readonly string[]).includes(setting)) given[setting] = value.split(/[\s,]+/).filter(Boolean);
    else given[setting] = value.trim();
  }
  const numberOf = (prefix: string) => Number(/\d+/.exec(prefix)?.[0]);
  return [...found]
    .sort(([a], [b]) => numberOf(a) - numberOf(b))
    .map(([prefix, given]) => ({ given, from: `${prefix}*` }));
}

function fromYaml(value: unknown, from: string): { given: Settings; from: string }[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw wrong(from, 'it must be a list of providers');
  return value.map((entry: unknown, at) => {
    const here = `${from}[${at}]`;
    if (typeof entry !== 'object' || entry === null) throw wrong(here, 'it must contain settings with their values');
    const given: Record<string, unknown> = {};
    for (const [name, setting] of Object.entries(entry)) {
      if (!KNOWN.includes(name)) throw wrong(here, `unknown setting ${JSON.stringify(name)}`);
      if (setting === null) continue;
      if ((SWITCHES as readonly string[]).includes(name)) given[name] = readSwitch(setting, `${here}.${name}`);
      else if ((LISTS as readonly string[]).includes(name)) {
        given[name] = Array.isArray(setting)
          ? setting.map(String)
          : String(setting)
              .split(/[\s,]+/)
              .filter(Boolean);
      } else given[name] = String(setting).trim();
    }
    return { given, from: here };
  });
}

/** Reads all providers, of the YAML file first. @throws AppError `invalid` that names the setting to correct */
export function readExternalAuth(env: NodeJS.ProcessEnv, yaml: unknown, yamlFrom: string): ExternalAuthProvider[] {
  const providers = [...fromYaml(yaml, yamlFrom), ...fromEnvironment(env)].map(({ given, from }) =>
    complete(given, from),
  );
  for (const [at, { id }] of providers.entries()) {
    if (providers.findIndex((other) => other.id === id) !== at) {
      throw new AppError(
        'invalid',
        `Two external auth providers have the id ${JSON.stringify(id)}. Set another id for one of them.`,
      );
    }
  }
  return providers;
}
