/**
 * What values a template's parameter takes. The server checks what people enter by these rules before a build, the
 * Terraform provider within it. Numbers and booleans are written as Go reads them, since published templates count on
 * it; with a validation block both are stricter.
 */
import { compile } from './re2.ts';

export interface ParameterValidation {
  min?: number | undefined;
  max?: number | undefined;
  /** `increasing`, `decreasing` or empty. */
  monotonic: string;
  /** RE2; empty for none. */
  regex: string;
  /** The author's own words, with the placeholders {min}, {max} and {value}; may be empty. */
  error: string;
}

export interface ParameterRules {
  type: string;
  formType: string;
  /** Values of the options; empty when anything may be entered. */
  options: readonly string[];
  validation?: ParameterValidation | undefined;
}

const BOOLS = new Set(['1', 't', 'T', 'true', 'TRUE', 'True', '0', 'f', 'F', 'false', 'FALSE', 'False']);
// no digit can be matched in two ways: a long value would take time with the square of its length
const DECIMAL = /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i;
const HEXADECIMAL = /^[-+]?0x([\da-f]+(\.[\da-f]*)?|\.[\da-f]+)p[-+]?\d{1,3}$/i;
const NOT_FINITE = /^([-+]?inf(inity)?|nan)$/i;
/** Underscores stand between digits only, or after the prefix. */
const STRAY_UNDERSCORE = { decimal: /(?<!\d)_|_(?!\d)/, hexadecimal: /(?<![\da-f]|0x)_|_(?![\da-f])/i };
const MOST_INTEGER = 2n ** 63n;

function isNumber(text: string): boolean {
  const hexadecimal = /^[-+]?0x/i.test(text);
  if (STRAY_UNDERSCORE[hexadecimal ? 'hexadecimal' : 'decimal'].test(text)) return false;
  const plain = text.replaceAll('_', '');
  if (hexadecimal) return HEXADECIMAL.test(plain);
  return NOT_FINITE.test(text) || (DECIMAL.test(plain) && Number.isFinite(Number(plain)));
}

/** A whole number of 64 bits. */
function integer(text: string): bigint | undefined {
  if (!/^[-+]?\d{1,400}$/.test(text)) return undefined;
  const value = BigInt(text);
  return value >= -MOST_INTEGER && value < MOST_INTEGER ? value : undefined;
}

/** The strings of a JSON list; undefined when the text is not one. */
export function stringList(text: string): string[] | undefined {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (list === null) return [];
  if (!Array.isArray(list) || !list.every((item) => typeof item === 'string' || item === null)) return undefined;
  return list.map((item: string | null) => item ?? '');
}

/** Says why the text is not a value of the type. */
export function typeProblem(type: string, value: string): string | undefined {
  const shown = JSON.stringify(value);
  if (type === 'number') return isNumber(value) ? undefined : `${shown} is not a number`;
  if (type === 'bool') return BOOLS.has(value) ? undefined : `${shown} is neither true nor false`;
  if (type === 'list(string)') return stringList(value) ? undefined : `${shown} is not a JSON list of strings`;
  return undefined;
}

/** Says which value is not among the options. */
export function choiceProblem({ type, formType, options }: ParameterRules, value: string): string | undefined {
  if (options.length === 0) return undefined;
  const many = type === 'list(string)' && formType === 'multi-select';
  const chosen = many ? stringList(value) : [value];
  if (!chosen) return `${JSON.stringify(value)} is not a JSON list of strings`;
  const stray = chosen.find((item) => !options.includes(item));
  if (stray === undefined) return undefined;
  return `must be one of ${options.map((option) => JSON.stringify(option)).join(', ')}, not ${JSON.stringify(stray)}`;
}

/** Says why the value breaks the validation block, with the author's own words for numbers and texts, if there are any. */
export function validationProblem(
  rules: ParameterRules,
  value: string,
  previous?: string,
): { problem: string; own: string } | undefined {
  const { type, validation } = rules;
  if (!validation) return undefined;
  const problem = broken(type, validation, value, previous);
  if (problem === undefined) return undefined;
  if (type !== 'number' && type !== 'string') return { problem, own: '' };
  const own = validation.error
    .replaceAll('{min}', String(validation.min ?? ''))
    .replaceAll('{max}', String(validation.max ?? ''))
    .replaceAll('{value}', () => value);
  return { problem, own };
}

function broken(type: string, rule: ParameterValidation, value: string, previous?: string): string | undefined {
  if (type === 'number') return numberProblem(rule, value, previous);
  if (type === 'string') return regexProblem(rule.regex, value);
  if (type === 'bool' && value !== 'true' && value !== 'false')
    return `${JSON.stringify(value)} is neither true nor false`;
  return typeProblem(type, value);
}

function numberProblem(rule: ParameterValidation, value: string, previous: string | undefined): string | undefined {
  const number = integer(value);
  if (number === undefined) return `${JSON.stringify(value)} is not a whole number`;
  if (rule.min !== undefined && number < rule.min) return `${value} is less than the minimum of ${rule.min}`;
  if (rule.max !== undefined && number > rule.max) return `${value} is more than the maximum of ${rule.max}`;
  const before = previous === undefined ? undefined : integer(previous);
  if (before === undefined) return undefined;
  if (rule.monotonic === 'increasing' && number < before) return `${value} is less than before (${previous})`;
  if (rule.monotonic === 'decreasing' && number > before) return `${value} is more than before (${previous})`;
  return undefined;
}

function regexProblem(regex: string, value: string): string | undefined {
  if (regex === '') return undefined;
  try {
    return compile(regex).test(value) ? undefined : `${JSON.stringify(value)} does not match ${regex}`;
  } catch (err) {
    return (err as Error).message;
  }
}
