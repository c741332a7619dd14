import type { DeploymentOption, DeploymentOptionGroup } from '@ropewalk/contract';
import { formatDuration } from '../../util/time.ts';

const NANOSECONDS_PER_MS = 1e6;

/** The names of an option's group and of the groups around it, outermost first. */
export function groupPath({ group }: Pick<DeploymentOption, 'group'>): string[] {
  return pathOf(group);
}

function pathOf({ name, parent }: DeploymentOptionGroup): string[] {
  return [...(parent ? pathOf(parent) : []), name];
}

/** Options that decide who gets in and what a stolen session can do, wherever their group is. */
const SECURITY =
  /cookie|strict-transport|csp-policy|session-duration|session-expiry|token-lifetime|disable-path-apps|disable-owner-workspace|browser-only|dangerous|rate-limits|scim|token-encryption|^tls-/;

export interface OptionPage {
  path: string;
  name: string;
  description: string;
}

/** The pages that show options, in the order of the navigation. */
export const OPTION_PAGES: readonly OptionPage[] = [
  { path: 'general', name: 'General', description: 'The server, provisioning, clients and schedules.' },
  {
    path: 'security',
    name: 'Security',
    description: 'Encryption, sessions, cookies and what is permitted in workspaces.',
  },
  { path: 'network', name: 'Network', description: 'Addresses, proxies and the relay to workspaces.' },
  { path: 'userauth', name: 'User authentication', description: 'Passwords, OpenID Connect and GitHub.' },
  { path: 'external-auth', name: 'External authentication', description: 'Git providers that workspaces use.' },
  { path: 'notifications', name: 'Notifications', description: 'How messages reach people.' },
  { path: 'observability', name: 'Observability', description: 'Logs, metrics, tracing and health checks.' },
];

/** The page of an option. Each option is on exactly one. */
export function pageOf(option: Pick<DeploymentOption, 'flag' | 'group'>): string {
  const [root = ''] = groupPath(option);
  if (/external-auth/.test(option.flag)) return 'external-auth';
  if (root === 'Email' || root === 'Notifications') return 'notifications';
  if (root === 'OAuth2' || root === 'OIDC' || option.flag === 'disable-password-auth') return 'userauth';
  if (SECURITY.test(option.flag)) return 'security';
  if (root === 'Networking') return 'network';
  if (root === 'Introspection') return 'observability';
  return 'general';
}

/** Options by their group, in the order in which the server lists them. */
export function byGroup<O extends Pick<DeploymentOption, 'group'>>(options: readonly O[]): [name: string, O[]][] {
  return [...Map.groupBy(options, (option) => groupPath(option).join(' › '))];
}

/** The options that a search means: each word is in the name, the description, the flag or the variable. */
export function searchOptions(options: readonly DeploymentOption[], search: string): DeploymentOption[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return options.filter((option) => {
    const text = [option.name, option.description, `--${option.flag}`, option.env, option.yaml, ...groupPath(option)]
      .join(' ')
      .toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const isMarked = ({ annotations }: Pick<DeploymentOption, 'annotations'>, mark: string): boolean =>
  (annotations as Record<string, unknown>)[mark] === 'true';

export const isSecret = (option: Pick<DeploymentOption, 'annotations'>): boolean => isMarked(option, 'secret');

/** The value of an option that lists the allowed ones. */
function chosen(value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'Choices' in value && 'Value' in value ? value.Value : value;
}

/** The value in force as a text. Undefined if it is not set, or is a secret. */
export function valueText(option: DeploymentOption): string | undefined {
  const value = chosen(option.value);
  if (isSecret(option) || value === null || value === undefined || value === '') return undefined;
  if (typeof value === 'boolean') return value ? 'On' : 'Off';
  if (typeof value === 'number') {
    return isMarked(option, 'format_duration') ? formatDuration(value / NANOSECONDS_PER_MS) : String(value);
  }
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map(String).join('\n');
  if (typeof value === 'object') return Object.keys(value).length === 0 ? undefined : JSON.stringify(value, null, 2);
  return String(value);
}

/** Where the value in force comes from. Undefined if it is the default or not set. */
export function sourceText({ value_source, flag, env, yaml }: DeploymentOption): string | undefined {
  switch (value_source) {
    case 'flag':
      return `--${flag}`;
    case 'env':
      return env;
    case 'yaml':
      return `${yaml} in the configuration file`;
    default:
      return undefined;
  }
}
