import type { OptionName, options } from '@ropewalk/server';
import type { FlagDef } from '../../framework/types.ts';

type Option = (typeof options)[OptionName];

/** The flag of an option of the server. The server parses the text, since it has the types. */
export const optionFlag = (row: Option): FlagDef => ({
  type: row.type === 'bool' ? 'bool' : 'string',
  env: row.env,
  description: row.description,
  ...('default' in row ? { default: row.default } : {}),
  ...('short' in row ? { short: row.short } : {}),
  ...('hidden' in row ? { hidden: row.hidden } : {}),
});

/** The texts that were given as flags, by the name of the option. */
export function optionTexts(
  all: typeof options,
  names: readonly OptionName[],
  texts: Readonly<Record<string, string | undefined>>,
): Partial<Record<OptionName, string>> {
  const given: Partial<Record<OptionName, string>> = {};
  for (const name of names) {
    const text = texts[all[name].flag];
    if (text !== undefined) given[name] = text;
  }
  return given;
}
