import type { Context } from './context.ts';

export type FlagType = 'bool' | 'string' | 'int' | 'duration' | 'url' | 'string[]';

/** A flag by its published name. Texts are parsed by type; durations become milliseconds. */
export interface FlagDef {
  type?: FlagType;
  /** One letter, without the dash. */
  short?: string;
  env?: string;
  /** Text, parsed like a given one. */
  default?: string;
  /** Only these values. */
  values?: readonly string[];
  description?: string;
  hidden?: true;
}
export type FlagDefs = Readonly<Record<string, FlagDef>>;

interface FlagValues {
  bool: boolean;
  string: string;
  int: number | undefined;
  duration: number | undefined;
  url: string;
  'string[]': string[];
}
type TypeOf<D extends FlagDef> = D extends { type: infer T extends FlagType } ? T : 'bool';
/** What the handler gets. A text that was not given is empty, a number undefined. */
export type ValuesOf<F extends FlagDefs> = { [K in keyof F]: FlagValues[TypeOf<F[K]>] };

export interface Definition<F extends FlagDefs = FlagDefs> {
  /** Positional arguments: `<needed> [optional] [rest...]`; each stands for one, with `...` for any number. */
  args?: string;
  flags?: F;
  /** Below the usage line. */
  help?: string;
  /** Flags that are known only at run time, such as the options of the server. */
  loadFlags?: () => Promise<FlagDefs>;
  /** After this many positional arguments everything is taken as it is, dashes included. */
  rawAfter?: number;
}

export interface Given<F extends FlagDefs = FlagDefs> {
  args: string[];
  flags: ValuesOf<F>;
  /** Texts that were given by flag, not by environment, by flag name. */
  texts: Record<string, string>;
  /** Whether the flag was given on the command line or by its environment variable. */
  isSet(name: keyof F & string): boolean;
}

/** The exit code, 0 when nothing is returned. */
export type Run<F extends FlagDefs> = (ctx: Context, given: Given<F>) => Promise<number | undefined>;

export interface Command<F extends FlagDefs = FlagDefs> {
  definition: Definition<F>;
  run: Run<F>;
}

/** Ties a definition to its handler, so that the handler's flags are typed. */
export function command<const F extends FlagDefs>(
  definition: Definition<F>,
  run: (ctx: Context, given: Given<F>) => Promise<unknown>,
): Command {
  const typed: Command<F> = {
    definition,
    run: async (ctx, given) => {
      const code = await run(ctx, given);
      return typeof code === 'number' ? code : undefined;
    },
  };
  return typed as unknown as Command;
}
