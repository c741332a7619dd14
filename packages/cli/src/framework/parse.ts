import { parseDuration } from '@platform/kit/duration';
import { AppError } from '@platform/kit/errors';
import { ownValue } from '@platform/kit/own-value';
import type { FlagDef, FlagDefs, ValuesOf } from './definition.ts';

export interface ParseInput {
  flags: FlagDefs;
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
  /** The number of positional words after which everything is positional, dashes included. */
  rawAfter?: number | undefined;
}

/** A command line, before its words are matched to the definition's arguments. */
export interface Parsed {
  words: string[];
  flags: ValuesOf<FlagDefs>;
  /** The texts of flags on the command line, by flag name. */
  texts: Record<string, string>;
  /** Whether the command line or the environment sets the flag. */
  isSet(name: string): boolean;
}

const FALSE = /^(false|f|0|no|off)$/i;
const TRUE = /^(true|t|1|yes|on)$/i;

/**
 * Reads a command line: `--flag value`, `--flag=value`, `-f value`, `-fvalue`, joined short booleans, `--bool=false`;
 * flags may stand anywhere before `--`. Lists repeat or are separated by commas. A flag that the command line does not
 * set comes from the environment, then from its default.
 * @throws AppError 'invalid' naming the flag.
 */
export function parseArguments(input: ParseInput): Parsed {
  const { flags, argv, env } = input;
  const byShort = new Map(Object.entries(flags).flatMap(([name, def]) => (def.short ? [[def.short, name]] : [])));
  const texts = new Map<string, string[]>();
  const words: string[] = [];
  const add = (name: string, text: string) => {
    const list = texts.get(name);
    if (list && flags[name]!.type === 'string[]') list.push(text);
    else texts.set(name, [text]);
  };
  for (let i = 0; i < argv.length; i++) {
    const token = argv[i]!;
    if (token === '--') {
      words.push(...argv.slice(i + 1));
      break;
    }
    if (input.rawAfter !== undefined && words.length > input.rawAfter) {
      words.push(...argv.slice(i));
      break;
    }
    if (token === '-' || !token.startsWith('-')) {
      words.push(token);
      continue;
    }
    const next = () => {
      i++;
      return argv[i];
    };
    if (token.startsWith('--')) longFlag(token, flags, next, add);
    else shortFlags(token, flags, byShort, next, add);
  }
  return toParsed(flags, texts, words, env);
}

type Add = (name: string, text: string) => void;

function longFlag(token: string, flags: FlagDefs, next: () => string | undefined, add: Add): void {
  const at = token.indexOf('=');
  const name = at < 0 ? token.slice(2) : token.slice(2, at);
  const def = ownValue(flags, name);
  if (!def) throw new AppError('invalid', `Unknown flag: --${name}`);
  if (at >= 0) add(name, token.slice(at + 1));
  else if (isBool(def)) add(name, 'true');
  else add(name, needed(next(), `--${name}`));
}

function shortFlags(
  token: string,
  flags: FlagDefs,
  byShort: Map<string, string>,
  next: () => string | undefined,
  add: Add,
): void {
  for (let at = 1; at < token.length; at++) {
    const letter = token[at]!;
    const name = byShort.get(letter);
    if (!name) throw new AppError('invalid', `Unknown flag: -${letter}${token.length > 2 ? ` in ${token}` : ''}`);
    const rest = token.slice(at + 1);
    if (isBool(flags[name]!)) {
      if (!rest.startsWith('=')) {
        add(name, 'true');
        continue;
      }
      add(name, rest.slice(1));
      return;
    }
    add(name, rest === '' ? needed(next(), `-${letter}`) : rest.replace(/^=/, ''));
    return;
  }
}

function needed(value: string | undefined, flag: string): string {
  if (value === undefined) throw new AppError('invalid', `Missing value for flag ${flag}.`);
  return value;
}

/** The flag of a word such as `--output` or `-o`, with its name. */
export function flagOf(flags: FlagDefs, word: string): [name: string, def: FlagDef] | undefined {
  const name = word.replace(/^--?/, '');
  return Object.entries(flags).find(([long, { short }]) => (word.startsWith('--') ? long : short) === name);
}

/** Whether the word after this flag is its value. */
export function takesValue(flags: FlagDefs, word: string): boolean {
  const found = word.startsWith('-') && flagOf(flags, word);
  return found ? !isBool(found[1]) : false;
}

const isBool = (def: FlagDef) => (def.type ?? 'bool') === 'bool';

function toParsed(flags: FlagDefs, texts: Map<string, string[]>, words: string[], env: NodeJS.ProcessEnv): Parsed {
  const values: Record<string, unknown> = {};
  const given: Record<string, string> = {};
  const set = new Set<string>();
  for (const [name, def] of Object.entries(flags)) {
    const fromFlag = texts.get(name);
    const fromEnv = def.env === undefined ? undefined : env[def.env];
    if (fromFlag || (fromEnv !== undefined && fromEnv !== '')) set.add(name);
    if (fromFlag) {
      given[name] = fromFlag.join(',');
      values[name] = value(def, fromFlag, `--${name}`);
    } else if (fromEnv !== undefined && fromEnv !== '') {
      values[name] = value(def, [fromEnv], def.env!);
    } else {
      values[name] = value(def, def.default === undefined ? undefined : [def.default], `--${name}`);
    }
  }
  return { words, flags: values as never, texts: given, isSet: (name) => set.has(name) };
}

function value(def: FlagDef, texts: string[] | undefined, from: string): unknown {
  const type = def.type ?? 'bool';
  const text = texts?.[0];
  const wrong = (why: string) => new AppError('invalid', `Invalid value for ${from}: ${why}`);
  const listed = (one: string) => {
    if (def.values && !def.values.includes(one)) {
      throw wrong(`${JSON.stringify(one)} is not one of ${def.values.join(', ')}`);
    }
    return one;
  };
  if (type === 'string[]') return texts?.flatMap(splitList).map(listed) ?? [];
  if (text === undefined) return { bool: false, string: '', url: '', int: undefined, duration: undefined }[type];
  switch (type) {
    case 'bool':
      if (TRUE.test(text)) return true;
      if (FALSE.test(text)) return false;
      throw wrong(`${JSON.stringify(text)} is not true or false`);
    case 'int':
      if (!/^-?\d+$/.test(text)) throw wrong(`${JSON.stringify(text)} is not a whole number`);
      return Number(text);
    case 'duration':
      try {
        return parseDuration(text);
      } catch (err) {
        throw wrong((err as Error).message);
      }
    case 'url':
      if (text !== '' && !URL.canParse(text)) throw wrong(`${JSON.stringify(text)} is not a URL`);
      return text;
    default:
      return text === '' ? text : listed(text);
  }
}

/** Splits at commas, not at those inside double quotes: `a,"b,c"` is `a` and `b,c`. */
export function splitList(text: string): string[] {
  const parts: string[] = [];
  const field = /\s*(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/y;
  while (field.lastIndex < text.length) {
    const found = field.exec(text);
    if (!found) return [...parts, text.slice(parts.length)];
    parts.push(found[1] === undefined ? found[2]!.trim() : found[1].replaceAll('""', '"'));
  }
  return parts;
}
