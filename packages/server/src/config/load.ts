import { readFileSync } from 'node:fs';
import { AppError, homeFolder } from '@platform/kit';
import { parse as parseYaml } from 'yaml';
import { type OptionRow, parseOption } from './option.ts';
import { type Config, type OptionName, options } from './options.ts';

export type ValueSource = 'flag' | 'env' | 'yaml' | 'default' | '';

export interface LoadedConfig {
  config: Config;
  sources: Record<OptionName, ValueSource>;
}

export interface ConfigInput {
  /** Texts given by flag, by option name. */
  flags?: Partial<Record<OptionName, string>>;
  env: NodeJS.ProcessEnv;
  /** A YAML file whose values rank below flags and environment. */
  yamlPath?: string;
}

/** Parses every option once: a flag wins over the environment, that over the YAML file, that over the default. */
export function loadConfig({ flags = {}, env, yamlPath }: ConfigInput): LoadedConfig {
  const yaml = yamlPath ? readYaml(yamlPath) : {};
  const config: Record<string, unknown> = {};
  const sources: Record<string, ValueSource> = {};
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
                typeof fromYaml === 'object' ? yamlText(fromYaml) : String(fromYaml),
                `${yamlPath}: ${row.yaml}`,
              ] as const)
            : row.default === undefined
              ? (['', '', row.flag ?? name] as const)
              : (['default', row.default, row.flag ?? name] as const);
    sources[name] = source;
    config[name] = source === '' && row.type === 'int' ? 0 : parseOption(row, expandHome(row, text), from);
  }
  return { config: config as Config, sources: sources as Record<OptionName, ValueSource> };
}

function expandHome(row: OptionRow, text: string): string {
  return row.type === 'string' && text.startsWith('~/') ? homeFolder() + text.slice(1) : text;
}

function readYaml(path: string): Record<string, unknown> {
  try {
    return (parseYaml(readFileSync(path, 'utf8')) ?? {}) as Record<string, unknown>;
  } catch (err) {
    throw new AppError('invalid', `Could not read the config file ${path}: ${(err as Error).message}`);
  }
}

function at(tree: Record<string, unknown>, path: string): unknown {
  return path.split('.').reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], tree);
}

function yamlText(value: unknown): string {
  return Array.isArray(value) ? value.join(',') : JSON.stringify(value);
}
