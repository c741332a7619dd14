import type { DeploymentConfig, DeploymentOption, DeploymentOptionGroup, DeploymentValues } from '@ropewalk/contract';
import type { ExternalAuthProvider } from './external-auth.ts';
import { FIXED_VALUES } from './fixed-values.ts';
import type { ValueSource } from './load.ts';
import type { OptionRow } from './option.ts';
import type { OptionName } from './options/rows.ts';
import { type Config, options } from './options.ts';

const NANOSECONDS_PER_MS = 1_000_000;

const rows = Object.entries(options) as [OptionName, OptionRow][];

/** Formats a value for upstream's clients: durations in nanoseconds, secrets blank. */
function toWire(row: OptionRow, value: unknown): unknown {
  if (row.secret) return row.type === 'string[]' ? [] : '';
  return row.type === 'duration' ? (value as number) * NANOSECONDS_PER_MS : value;
}

/** Formats the value of one option in the list of options. */
function toOptionValue(row: OptionRow, value: unknown): unknown {
  return row.withChoices ? { Choices: row.values, Value: value } : toWire(row, value);
}

/** A provider without its secret and the settings that upstream's API does not have. */
function shownProvider({ client_secret, revoke_url, extra_token_keys, pkce, ...shown }: ExternalAuthProvider) {
  return shown;
}

/** The configuration as one tree. Throws if a row's path is not in the tree, which is a mistake in the table. */
export function deploymentValues(config: Config): DeploymentValues {
  const tree: DeploymentValues = structuredClone(FIXED_VALUES);
  for (const [name, row] of rows) {
    if (row.json === undefined) continue;
    const path = row.json.split('.');
    const last = path.pop()!;
    const node = path.reduce<Record<string, unknown> | undefined>(
      (at, key) => at?.[key] as Record<string, unknown> | undefined,
      tree as unknown as Record<string, unknown>,
    );
    if (!node || !(last in node)) throw new Error(`the path ${row.json} of the option ${name} is not in the tree`);
    node[last] = toWire(row, config[name]);
  }
  tree.external_auth = config.externalAuth.map(shownProvider);
  return tree;
}

const ACRONYMS =
  /\b(ai|api|ca|cli|csp|db|derp|http|https|id|json|oauth2|oidc|psk|scim|smtp|ssh|stun|tls|url|url|ui)\b/gi;

/** The option's name. `oidc-client-id` reads "OIDC Client ID". */
export function optionTitle(row: OptionRow): string {
  if (row.title !== undefined) return row.title;
  return (row.flag ?? '')
    .split('-')
    .map((word) => (word === '' ? '' : word[0]!.toUpperCase() + word.slice(1)))
    .join(' ')
    .replace(ACRONYMS, (word) => (word.toLowerCase() === 'oauth2' ? 'OAuth2' : word.toUpperCase()));
}

/** The group with its parents. Each has its part of the option's path in the YAML file, if the path has as many. */
function groupOf(row: OptionRow): DeploymentOptionGroup {
  const names = row.group.split(' / ');
  const parts = row.yaml?.split('.').slice(0, -1) ?? [];
  const yaml = (at: number) => (parts.length === names.length ? parts[at]! : '');
  const [first, ...inner] = names.map((name, at) => ({ name, description: '', yaml: yaml(at) }));
  return inner.reduce<DeploymentOptionGroup>((parent, group) => ({ ...group, parent }), first!);
}

/** Marks for clients: that a value is in nanoseconds, and that it is a secret. */
const annotationsOf = (row: OptionRow): Record<string, string> => ({
  ...(row.type === 'duration' ? { format_duration: 'true' } : {}),
  ...(row.secret ? { secret: 'true' } : {}),
});

export function deploymentConfig(
  config: Config,
  sources: Partial<Record<OptionName, ValueSource>> = {},
): DeploymentConfig {
  return {
    config: deploymentValues(config),
    options: rows.map(
      ([name, row]): DeploymentOption => ({
        name: optionTitle(row),
        description: row.description,
        flag: row.flag ?? '',
        flag_shorthand: row.short ?? '',
        env: row.env ?? '',
        yaml: row.yaml?.split('.').at(-1) ?? '',
        default: row.default ?? '',
        value: toOptionValue(row, config[name]),
        value_source: sources[name] ?? '',
        annotations: annotationsOf(row),
        group: groupOf(row),
        hidden: row.hidden ?? false,
        required: false,
        use_instead: [],
      }),
    ),
  };
}
