import { AppError } from '@ropewalk/kit/errors';
import type { ArgDef, ArgDefs, Definition, FlagDefs } from './types.ts';

/** An argument as usage lines show it: `<workspace>`, `[file]`, `[command...]`, `<always|never>`. */
function slotOf(name: string, def: ArgDef): string {
  const label = (def.usage ?? def.values?.join('|') ?? name) + (def.rest ? '...' : '');
  return def.optional ? `[${label}]` : `<${label}>`;
}

/** The arguments of a usage line; empty where the command takes none. */
export function argumentsUsage(args: ArgDefs = {}): string {
  return Object.entries(args)
    .map(([name, def]) => slotOf(name, def))
    .join(' ');
}

/** The number of arguments after which flags no longer belong to this command; undefined for no limit. */
export function rawAfter({ args = {} }: Definition): number | undefined {
  const index = Object.values(args).findIndex((def) => def.raw);
  return index < 0 ? undefined : index;
}

/** How to call the command, with the flags that it requires. */
function usageOf(path: readonly string[], { args, flags = {} }: Definition): string {
  const required = Object.entries(flags).flatMap(([name, def]) =>
    def.required ? [`--${name} <${def.type ?? 'bool'}>`] : [],
  );
  return ['coder', ...path, ...required, argumentsUsage(args)].join(' ').trim();
}

/**
 * Matches words to the arguments of a definition.
 * @throws AppError `invalid` where one is missing, is too many, or has a value that the definition does not list.
 */
export function bindArguments(
  path: readonly string[],
  definition: Definition,
  words: readonly string[],
): Record<string, string | string[] | undefined> {
  const wrong = (text: string) => new AppError('invalid', `${text} Usage: ${usageOf(path, definition)}`);
  const bound: Record<string, string | string[] | undefined> = {};
  let at = 0;
  for (const [name, def] of Object.entries(definition.args ?? {})) {
    const taken = def.rest ? words.slice(at) : words.slice(at, at + 1);
    at += taken.length;
    if (taken.length === 0 && !def.optional) throw wrong(`Missing argument ${slotOf(name, def)}.`);
    const invalid = def.values && taken.find((word) => !def.values!.includes(word));
    if (invalid !== undefined) {
      throw wrong(`Invalid argument ${JSON.stringify(invalid)}: use ${def.values!.join(' or ')}.`);
    }
    bound[name] = def.rest ? taken : taken[0];
  }
  if (at < words.length) throw wrong(`Unexpected argument ${JSON.stringify(words[at])}.`);
  return bound;
}

/** @throws AppError `invalid` naming the required flags that neither the command line nor the environment sets. */
export function checkRequired(
  path: readonly string[],
  definition: Definition,
  flags: FlagDefs,
  hasValue: (name: string) => boolean,
): void {
  const missing = Object.entries(flags).flatMap(([name, def]) =>
    def.required && !hasValue(name) ? [`--${name}`] : [],
  );
  if (missing.length === 0) return;
  const noun = missing.length === 1 ? 'flag' : 'flags';
  throw new AppError('invalid', `Missing ${noun} ${missing.join(', ')}. Usage: ${usageOf(path, definition)}`);
}
