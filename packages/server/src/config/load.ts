import { readFileSync } from 'node:fs';
import { AppError, homeFolder } from '@ropewalk/kit';
import { parse as parseYaml } from 'yaml';
import { readExternalAuth } from './external-auth.ts';
import { LEFT_OUT_KEYS } from './left-out.ts';
import { type OptionRow, parseOption } from './option.ts';
import type { OptionName } from './options/rows.ts';
import { type Config, options } from './options.ts';

export type ValueSource = 'flag' | 'env' | 'yaml' | 'default' | '';

export interface LoadedConfig {
  config: Config;
  sources: Record<OptionName, ValueSource>;
  /** The texts of the options that have a value, which parsed well. */
  texts: Partial<Record<OptionName, string>>;
}

export interface ConfigInput {
  /** The texts of flags, by option name. */
  flags?: Partial<Record<OptionName, string>>;
  env: NodeJS.ProcessEnv;
  /** A YAML file. Flags and environment variables override its values. */
  yamlPath?: string;
}

/**
 * Parses every option once. A flag overrides the environment variable, which overrides the YAML file, which overrides
 * the default.
 */
export function loadConfig({ flags = {}, env, yamlPath }: ConfigInput): LoadedConfig {
  const yaml = yamlPath ? readYaml(yamlPath) : {};
  const config: Record<string, unknown> = {};
  const sources: Record<string, ValueSource> = {};
  const texts: Partial<Record<OptionName, string>> = {};
  for (const [name, row] of Object.entries(options) as [OptionName, OptionRow][]) {
    const fromEnv = row.env === undefined ? undefined : env[row.env];
    const fromYaml = row.yaml === undefined ? undefined : at(yaml, row.yaml);
    const [source, text, from] =
      flags[name] !== undefined
        ? (['flag', flags[name], `--${row.flag}`] as const)
        : fromEnv !== undefined && (fromEnv !== '' || row.type === 'string')
          ? (['env', fromEnv, row.env!] as const)
          : fromYaml !== undefined && fromYaml !== null
            ? ([
                'yaml',
                typeof fromYaml === 'object' ? yamlText(row, fromYaml) : String(fromYaml),
                `${yamlPath}: ${row.yaml}`,
              ] as const)
            : row.default === undefined
              ? (['', '', row.flag ?? name] as const)
              : (['default', row.default, row.flag ?? name] as const);
    sources[name] = source;
    if (source !== '') texts[name] = text;
    config[name] = source === '' && row.type === 'int' ? 0 : parseOption(row, expandHome(row, text), from);
  }
  config['externalAuth'] = readExternalAuth(env, at(yaml, EXTERNAL_AUTH), `${yamlPath}: ${EXTERNAL_AUTH}`);
  return { config: config as Config, sources: sources as Record<OptionName, ValueSource>, texts };
}

function expandHome(row: OptionRow, text: string): string {
  return row.type === 'string' && text.startsWith('~/') ? homeFolder() + text.slice(1) : text;
}

function readYaml(path: string): Record<string, unknown> {
  let tree: unknown;
  try {
    tree = parseYaml(readFileSync(path, 'utf8')) ?? {};
  } catch (err) {
    throw new AppError('invalid', `Could not read the config file ${path}: ${(err as Error).message}`);
  }
  if (!isGroup(tree)) throw new AppError('invalid', `${path}: must contain options with their values.`);
  checkKeys(tree, path);
  return tree;
}

function at(tree: Record<string, unknown>, path: string): unknown {
  return path.split('.').reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], tree);
}

function yamlText(row: OptionRow, value: unknown): string {
  return Array.isArray(value) && row.type !== 'json' ? value.join(',') : JSON.stringify(value);
}

/** The key of the external auth providers, which have no flag. */
const EXTERNAL_AUTH = 'externalAuthProviders';

/** Keys that upstream's programs write into a file, and for which this server has no option. They are ignored. */
const WITHOUT_OPTION = [
  'autobuildPollInterval',
  'ephemeralDeployment',
  'introspection.logging.verbose',
  'introspection.tracing.dataDog',
  'jobHangDetectorInterval',
  'networking.tls.redirectHTTP',
  'notifications.fetchInterval',
  'notifications.leaseCount',
  'notifications.leasePeriod',
  'notifications.retryInterval',
  'notifications.storeSyncBufferSize',
  'notifications.storeSyncInterval',
  'oidc.accessTokenClaims',
  'oidc.organizationAssignDefault',
  'oidc.organizationField',
  'oidc.organizationMapping',
  'provisioning.daemonTypes',
  'telemetry.url',
  'wgtunnelHost',
];

/** Throws for a key that is neither an option nor a group of options: it is misspelled, or in the wrong group. */
function checkKeys(yaml: Record<string, unknown>, file: string): void {
  const known = new Set([...WITHOUT_OPTION, ...LEFT_OUT_KEYS, EXTERNAL_AUTH]);
  for (const row of Object.values(options) as OptionRow[]) if (row.yaml !== undefined) known.add(row.yaml);
  const groups = new Set<string>();
  for (const path of known) {
    for (let dot = path.indexOf('.'); dot >= 0; dot = path.indexOf('.', dot + 1)) groups.add(path.slice(0, dot));
  }
  const unknown: string[] = [];
  const walk = (group: Record<string, unknown>, prefix: string) => {
    for (const [key, value] of Object.entries(group)) {
      const path = `${prefix}${key}`;
      if (known.has(path) || LEFT_OUT_KEYS.some((left) => left === path || left === `${path}.`)) continue;
      if (!groups.has(path)) unknown.push(path);
      else if (isGroup(value)) walk(value, `${path}.`);
      else if (value !== null)
        throw new AppError('invalid', `${file}: ${JSON.stringify(path)} is a group of options, not an option.`);
    }
  };
  walk(yaml, '');
  if (unknown.length > 0) {
    const names = unknown.map((path) => JSON.stringify(path)).join(', ');
    throw new AppError(
      'invalid',
      `${file}: unknown option or group ${names}. Check the spelling and the group in docs/reference/server-options.md.`,
    );
  }
}

function isGroup(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
