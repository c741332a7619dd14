export type FlagType = 'bool' | 'string' | 'int' | 'duration' | 'url' | 'string[]';

/** A flag by its upstream name. Texts are parsed by type. Durations become milliseconds. */
export interface FlagDef {
  type?: FlagType;
  /** One letter, without the dash. */
  short?: string;
  env?: string;
  /** A text, parsed like one from the command line. */
  default?: string;
  /** The command fails without this flag or its environment variable. */
  required?: true;
  /** Only these values are valid. */
  values?: readonly string[];
  /** The values of a list are `name=value`. A value may contain commas and quotes. */
  pairs?: true;
  description?: string;
  hidden?: true;
}

export type FlagDefs = Readonly<Record<string, FlagDef>>;

export interface FlagValues {
  bool: boolean;
  string: string;
  int: number;
  duration: number;
  url: string;
  'string[]': string[];
}

export type TypeOf<D extends FlagDef> = D extends { type: infer T extends FlagType } ? T : 'bool';

/** A number without a value and without a default is undefined. */
export type ValueOf<D extends FlagDef> =
  | FlagValues[TypeOf<D>]
  | (TypeOf<D> extends 'int' | 'duration'
      ? D extends { default: string } | { required: true }
        ? never
        : undefined
      : never);

/** The flags as the handler receives them. A text without a value is empty. */
export type ValuesOf<F extends FlagDefs> = { [K in keyof F]: ValueOf<F[K]> };

/** A positional argument. Arguments are matched in the order of the definition. */
export interface ArgDef {
  /** What the usage line shows instead of the argument's name. */
  usage?: string;
  /** The argument may be left out. So may every argument after it. */
  optional?: true;
  /** Takes all remaining arguments. Only for the last argument. */
  rest?: true;
  /** From the second of these arguments on, flags belong to them and not to this command. Only with `rest`. */
  raw?: true;
  /** Only these values are valid. */
  values?: readonly string[];
}

export type ArgDefs = Readonly<Record<string, ArgDef>>;

export type ArgValue<D extends ArgDef> = D extends { rest: true }
  ? string[]
  :
      | (D extends { values: readonly (infer V extends string)[] } ? V : string)
      | (D extends { optional: true } ? undefined : never);

/** The arguments as the handler receives them. */
export type ArgsOf<A extends ArgDefs> = { [K in keyof A]: ArgValue<A[K]> };

export interface Example {
  /** The command line, without a prompt. */
  run: string;
  /** What it does, as a phrase. */
  does: string;
}

export interface Definition<A extends ArgDefs = ArgDefs, F extends FlagDefs = FlagDefs> {
  args?: A;
  flags?: F;
  /** Sentences below the usage line. */
  help?: string;
  examples?: readonly Example[];
  /** Flags that are known only at run time, such as the options of the server. */
  loadFlags?: () => Promise<FlagDefs>;
}

export interface Given<F extends FlagDefs = FlagDefs, A extends ArgDefs = Record<never, never>> {
  args: ArgsOf<A>;
  flags: ValuesOf<F>;
  /** The texts of flags on the command line, not of environment variables, by flag name. */
  texts: Record<string, string>;
  /** Whether the command line or the environment sets the flag. */
  isSet(name: keyof F & string): boolean;
}
