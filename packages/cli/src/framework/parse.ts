import { parseDuration } from '@ropewalk/kit/duration';
import { AppError } from '@ropewalk/kit/errors';
import { ownValue } from '@ropewalk/kit/own-value';
import type { FlagDef, FlagDefs, ValuesOf } from './types.ts';

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
  if (type === 'string[]') return texts?.flatMap(def.pairs ? splitPairs : splitList).map(listed) ?? [];
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

/** A field of a CSV record as upstream reads it: quotes only around the whole field, doubled inside. */
const CSV_FIELD = /(?:"((?:[^"]|"")*)"|([^",]*))(?:,|$)/y;
/** Text up to the next comma outside double quotes, in which a backslash may stand before a quote. */
const RAW_FIELD = /((?:"(?:[^"\\]|\\.)*(?:"|$)|[^",])*)(?:,|$)/y;
const BEGINS_PAIR = /^\s*[^\s"'[\]{}=][^"=]*=/;

/**
 * Splits `name=value` pairs at commas. Accepts what upstream accepts, a CSV record such as `a=1,"b=2,3"`, and in addition
 * what people write without its quotes: a part that does not begin with `name=` belongs to the value before it, as in
 * `ides=["vim","emacs"]` or `NO_PROXY=a,b`.
 */
export function splitPairs(text: string): string[] {
  const fields = fieldsOf(text, CSV_FIELD) ?? fieldsOf(text, RAW_FIELD) ?? [{ raw: text, value: text }];
  const pairs: string[] = [];
  for (const { raw, value } of fields) {
    if (pairs.length === 0 || BEGINS_PAIR.test(value)) pairs.push(value.trimStart());
    else pairs[pairs.length - 1] += `,${raw}`;
  }
  return pairs;
}

/** The fields of a text as a pattern reads them. Undefined if it does not match the whole text. */
function fieldsOf(text: string, pattern: RegExp): { raw: string; value: string }[] | undefined {
  const fields: { raw: string; value: string }[] = [];
  for (let from = 0; ; ) {
    pattern.lastIndex = from;
    const found = pattern.exec(text);
    if (!found) return undefined;
    const [whole, first, plain] = found;
    const raw = text.slice(from, from + whole.replace(/,$/, '').length);
    fields.push({ raw, value: pattern === CSV_FIELD ? (plain ?? first!.replaceAll('""', '"')) : raw });
    from += whole.length;
    if (!whole.endsWith(',')) return fields;
  }
}
