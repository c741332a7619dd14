/** How URLs address apps: with a path on the dashboard's host, or with their own host name. */

export type AppKind = 'path' | 'subdomain';

/** The query parameter that transfers a session to an app's own host. Upstream's name. */
export const SIGN_IN_PARAMETER = 'coder_application_connect_api_key_35e783';

/** An app as its URL names it. */
export interface AppAddress {
  kind: AppKind;
  /** The common part of all requests to the app: its path prefix without the last slash, or its host name. */
  base: string;
  /** A slug, or a port with a trailing `s` for https. */
  app: string;
  /** Empty where the URL leaves it out. */
  agent: string;
  workspace: string;
  /** A user name, or `me` (paths only). */
  user: string;
}

const NAME = '[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*';
const LABEL = new RegExp(`^(${NAME})--(?:(${NAME})--)?(${NAME})--(${NAME})$`);
const PATH = new RegExp(`^/@(${NAME})/(${NAME})(?:\\.(${NAME}))?/apps/(${NAME})(?=[/?]|$)`);

/** Whether a request target belongs to a path app, well-formed or not. Such a request never reaches the API. */
export function isPathAppTarget(target: string): boolean {
  return /^\/@[^/?]*\/[^/?]*\/apps(?:[/?]|$)/.test(target);
}

/**
 * Parses `/@user/workspace[.agent]/apps/app…`. `rest` is what the app receives. It is empty without a slash after the
 * app.
 */
export function parseAppPath(target: string): { address: AppAddress; rest: string } | undefined {
  const found = PATH.exec(target);
  if (!found) return undefined;
  const [base, user, workspace, agent, app] = found as unknown as [string, string, string, string | undefined, string];
  return { address: { kind: 'path', base, app, agent: agent ?? '', workspace, user }, rest: target.slice(base.length) };
}

/**
 * Whether any reading of a path leaves its start: plain, with encoded separators and dots, or with parameters after its
 * dots, which some servers strip first.
 */
export function climbs(target: string): boolean {
  const path = target.split('?', 1)[0]!;
  if (!path.includes('..') && !/%2e/i.test(path)) return false;
  return path
    .replaceAll(/%2e/gi, '.')
    .replaceAll(/%2f|%5c|\\/gi, '/')
    .split('/')
    .some((part) => /^\.\.(?:;|%3b|$)/i.test(part));
}

/**
 * The path that an app receives, always below the path of its url. On its own host, an app's absolute links begin
 * with that path already.
 */
export function targetPath({ kind }: Pick<AppAddress, 'kind'>, { path }: { path: string }, rest: string): string {
  const isWithin = rest.startsWith(path) && /^(?:[/?]|$)/.test(rest.slice(path.length));
  return kind === 'subdomain' && isWithin ? rest : path + rest;
}

/** The host pattern of `--wildcard-access-url`. */
export interface Wildcard {
  scheme: string | undefined;
  /** The parts before and after the star, in lower case. `after` has no port. */
  before: string;
  after: string;
  /** With its colon, or empty. */
  port: string;
}

/**
 * Parses `*.apps.example.com` and `*--apps.example.com`, each with an optional scheme and port. Undefined for anything
 * else.
 */
export function parseWildcard(text: string): Wildcard | undefined {
  const found = /^(?:(https?):\/\/)?([a-z0-9-]*)\*([a-z0-9.-]+?)(:\d+)?\/?$/i.exec(text.trim());
  if (!found) return undefined;
  const [, scheme, before, after, port] = found;
  // without a dot, the star would match a part of the top-level name
  if (!/^-*[a-z0-9-]*\.[a-z0-9]/i.test(after!)) return undefined;
  return {
    scheme: scheme?.toLowerCase(),
    before: before!.toLowerCase(),
    after: after!.toLowerCase(),
    port: port ?? '',
  };
}

/** A host without its port, lower case. */
export function hostName(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}

/** The part of this host that the star matches. Undefined for a host that does not match the pattern. */
export function wildcardLabel(wildcard: Wildcard, host: string): string | undefined {
  const name = hostName(host);
  const { before, after } = wildcard;
  if (!name.startsWith(before) || !name.endsWith(after) || name.length <= before.length + after.length)
    return undefined;
  const label = name.slice(before.length, name.length - after.length);
  return label.includes('.') ? undefined : label;
}

/** The app that a host name of the pattern names. Undefined if it names none. */
export function parseAppHost(wildcard: Wildcard, host: string): AppAddress | undefined {
  const label = wildcardLabel(wildcard, host);
  const found = label === undefined ? null : LABEL.exec(label);
  if (!found) return undefined;
  const [, app, agent, workspace, user] = found as unknown as [string, string, string | undefined, string, string];
  return { kind: 'subdomain', base: hostName(host), app, agent: agent ?? '', workspace, user };
}

/** The name of an app before the wildcard's suffix, for example `code-server--main--dev--alice`. */
export function subdomainName(app: string, agent: string, workspace: string, user: string): string {
  return [app, agent, workspace, user].join('--').toLowerCase();
}

/** The pattern for the URLs of apps that this server creates, with the port that people use. */
export function wildcardHost(wildcard: Wildcard, accessUrl: string): string {
  const port =
    wildcard.port || (URL.canParse(accessUrl) && new URL(accessUrl).port ? `:${new URL(accessUrl).port}` : '');
  return `${wildcard.before}*${wildcard.after}${port}`;
}

/** The pattern of apps' hosts, with the port that people use. Empty without host names for apps. */
export function appHost({ config, accessUrl }: { config: { wildcardAccessUrl: string }; accessUrl: string }): string {
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  return wildcard ? wildcardHost(wildcard, accessUrl) : '';
}

/** The origin of an app as browsers see it. */
export function subdomainOrigin(wildcard: Wildcard, accessUrl: string, label: string): string {
  const scheme = wildcard.scheme ?? (accessUrl.startsWith('https:') ? 'https' : 'http');
  return `${scheme}://${wildcardHost(wildcard, accessUrl).replace('*', label)}`;
}

/** All hosts of a wildcard pattern, as a Content-Security-Policy writes them. */
export function policyHosts(pattern: string): string {
  // there, the star is all of the first label
  return `*${pattern.slice(pattern.indexOf('.'))}`;
}

/** The origins of all apps that have their own hosts, as a Content-Security-Policy writes them. */
export function appOrigins({
  config,
  accessUrl,
}: {
  config: { wildcardAccessUrl: string };
  accessUrl: string;
}): string | undefined {
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  if (!wildcard) return undefined;
  const { protocol, host } = new URL(subdomainOrigin(wildcard, accessUrl, 'app'));
  return `${protocol}//${policyHosts(host)}`;
}

/** The URL of an agent's ports, with the placeholder `{{port}}`. Empty without --wildcard-access-url. */
export function portProxyUri(
  { config, accessUrl }: { config: { wildcardAccessUrl: string }; accessUrl: string },
  agent: { name: string; workspace_name: string; owner_name: string },
): string {
  const wildcard = parseWildcard(config.wildcardAccessUrl);
  if (!wildcard) return '';
  const label = subdomainName('{{port}}', agent.name, agent.workspace_name, agent.owner_name);
  return subdomainOrigin(wildcard, accessUrl, label);
}

const LOWEST_PORT = 1024;

/** Parses a port with an optional trailing `s` for https. Undefined for text that is not an allowed port. */
export function parsePort(text: string): { port: number; https: boolean } | undefined {
  const found = /^([1-9]\d{3,4})(s?)$/.exec(text);
  const port = Number(found?.[1]);
  if (!found || port < LOWEST_PORT || port > 65_535) return undefined;
  return { port, https: found[2] === 's' };
}
