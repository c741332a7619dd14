import { withNotes } from './effect.ts';
import type { ExternalAuthProvider } from './external-auth.ts';
import type { OptionTypes } from './option.ts';
import { type OptionName, rows } from './options/rows.ts';

/** Every option, with a note in its description if the server ignores it. */
export const options = withNotes(rows);

/** The parsed options, created once at start. */
export type Config = { [K in OptionName]: OptionTypes[(typeof options)[K]['type']] } & {
  /** Read from numbered variables and the YAML file: they have no flags. */
  externalAuth: readonly ExternalAuthProvider[];
};
