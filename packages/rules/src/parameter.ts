/**
 * Defines the values that a template's parameter accepts. The server applies these rules to input before a build, the
 * Terraform provider within the build. Numbers and booleans are parsed as Go does, because templates written for
 * upstream rely on it. A validation block makes both stricter.
 */
import { ownValue } from '@ropewalk/kit/own-value';
import { compile } from '@ropewalk/kit/re2';

export interface ParameterValidation {
  min?: number | undefined;
  max?: number | undefined;
  /** `increasing`, `decreasing` or empty. */
  monotonic: string;
  /** An RE2 expression. Empty for none. */
  regex: string;
  /** The template author's error message, with the placeholders {min}, {max} and {value}. May be empty. */
  error: string;
}

export interface ParameterRules {
  type: string;
  formType: string;
  /** The values of the options. Empty if any value is allowed. */
  options: readonly string[];
  validation?: ParameterValidation | undefined;
}

/** The form types of each type, with and without options. The first is the default. */
const FORM_TYPES_OF: Record<string, { options: string[]; free: string[] }> = {
  string: { options: ['radio', 'dropdown'], free: ['input', 'textarea'] },
  number: { options: ['radio', 'dropdown'], free: ['input', 'slider'] },
  bool: { options: ['radio', 'dropdown'], free: ['checkbox', 'switch'] },
  'list(string)': { options: ['radio', 'multi-select'], free: ['tag-select'] },
};

export const PARAMETER_TYPES = Object.keys(FORM_TYPES_OF);

export const FORM_TYPES = [...new Set(Object.values(FORM_TYPES_OF).flatMap((a) => [...a.options, ...a.free]))].sort();

/** Returns the form types of a parameter, the default first. Undefined if its type is invalid. */
export function formTypesFor(type: string, hasOptions: boolean): string[] | undefined {
  const kinds = ownValue(FORM_TYPES_OF, type);
  return hasOptions ? kinds?.options : kinds?.free;
}

/** Returns why a form type does not fit a type. */
export function formTypeProblem(type: string, formType: string, hasOptions: boolean): string | undefined {
  const allowed = formTypesFor(type, hasOptions);
  if (formType === '' || !allowed || allowed.includes(formType)) return undefined;
  const how = hasOptions ? 'with' : 'without';
  return `a ${type} ${how} options can be shown as ${allowed.join(' or ')}, not as ${formType}`;
}

/** The type of each option. The options of a multi-select are the members of its list, not lists. */
export const optionType = (type: string, formType: string): string => (formType === 'multi-select' ? 'string' : type);

/** Returns what is wrong with the definition of a validation block, by argument. */
export function validationProblems(
  type: string,
  rule: ParameterValidation,
): { argument: keyof ParameterValidation; problem: string }[] {
  const found: { argument: keyof ParameterValidation; problem: string }[] = [];
  const wrong = (argument: keyof ParameterValidation, problem: string) => found.push({ argument, problem });
  const only = (argument: 'min' | 'max' | 'monotonic' | 'regex', wanted: string) => {
    if (rule[argument] !== undefined && rule[argument] !== '' && type !== wanted)
      wrong(argument, `${argument} is for a ${wanted}, but the type is ${type}.`);
  };
  only('min', 'number');
  only('max', 'number');
  only('monotonic', 'number');
  only('regex', 'string');
  const unreadable = rule.regex === '' ? undefined : regexError(rule.regex);
  if (unreadable) wrong('regex', `regex: ${unreadable}.`);
  if (rule.regex !== '' && rule.error === '')
    wrong('error', 'A regex needs an error message for people who enter a value.');
  if (rule.min !== undefined && rule.max !== undefined && rule.min > rule.max)
    wrong('min', `min ${rule.min} is greater than max ${rule.max}.`);
  return found;
}

function regexError(regex: string): string | undefined {
  try {
    compile(regex);
    return undefined;
  } catch (err) {
    return (err as Error).message;
  }
}

const BOOLS = new Set(['1', 't', 'T', 'true', 'TRUE', 'True', '0', 'f', 'F', 'false', 'FALSE', 'False']);
// No digit can be matched in two ways: otherwise a long value would take quadratic time.
const DECIMAL = /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i;
const HEXADECIMAL = /^[-+]?0x([\da-f]+(\.[\da-f]*)?|\.[\da-f]+)p[-+]?\d{1,3}$/i;
const NOT_FINITE = /^([-+]?inf(inity)?|nan)$/i;
/** Underscores are valid only between digits or after the prefix. */
const STRAY_UNDERSCORE = { decimal: /(?<!\d)_|_(?!\d)/, hexadecimal: /(?<![\da-f]|0x)_|_(?![\da-f])/i };
const MAX_INTEGER = 2n ** 63n;

function isNumber(text: string): boolean {
  const hexadecimal = /^[-+]?0x/i.test(text);
  if (STRAY_UNDERSCORE[hexadecimal ? 'hexadecimal' : 'decimal'].test(text)) return false;
  const plain = text.replaceAll('_', '');
  if (hexadecimal) return HEXADECIMAL.test(plain);
  return NOT_FINITE.test(text) || (DECIMAL.test(plain) && Number.isFinite(Number(plain)));
}

/** Parses a 64-bit integer. */
function integer(text: string): bigint | undefined {
  if (!/^[-+]?\d{1,400}$/.test(text)) return undefined;
  const value = BigInt(text);
  return value >= -MAX_INTEGER && value < MAX_INTEGER ? value : undefined;
}

/** Parses a JSON list of strings. Returns undefined for other text. */
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

/** Returns why the text is not a value of the type. */
export function typeProblem(type: string, value: string): string | undefined {
  const shown = JSON.stringify(value);
  if (type === 'number') return isNumber(value) ? undefined : `${shown} is not a number`;
  if (type === 'bool') return BOOLS.has(value) ? undefined : `${shown} is neither true nor false`;
  if (type === 'list(string)') return stringList(value) ? undefined : `${shown} is not a JSON list of strings`;
  return undefined;
}

/** Returns which value is not among the options. */
export function choiceProblem({ type, formType, options }: ParameterRules, value: string): string | undefined {
  if (options.length === 0) return undefined;
  const many = type === 'list(string)' && formType === 'multi-select';
  const chosen = many ? stringList(value) : [value];
  if (!chosen) return `${JSON.stringify(value)} is not a JSON list of strings`;
  const stray = chosen.find((item) => !options.includes(item));
  if (stray === undefined) return undefined;
  return `must be one of ${options.map((option) => JSON.stringify(option)).join(', ')}, not ${JSON.stringify(stray)}`;
}

/**
 * Returns why the value violates the validation block. Uses the template author's message for numbers and texts, if
 * set. A message about bounds is left out if the parameter lacks one of them, or if the value broke another rule.
 */
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
  const { min, max, error } = validation;
  const named = { min: error.includes('{min}'), max: error.includes('{max}') };
  const withoutBounds = { ...validation, min: undefined, max: undefined };
  const otherRule = broken(type, withoutBounds, value, previous) === problem;
  if ((named.min && (min === undefined || otherRule)) || (named.max && (max === undefined || otherRule)))
    return { problem, own: '' };
  const own = error
    .replaceAll('{min}', String(min))
    .replaceAll('{max}', String(max))
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
