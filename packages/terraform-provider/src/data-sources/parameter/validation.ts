import { matches, regexError } from '@platform/kit/regex';
import type { Diagnostics, Path } from '../../diagnostics.ts';
import { blocks, bool, isUnknown, num, type Obj, str } from '../../value.ts';
import { formTypeError, formTypeOf } from './form-type.ts';

export const TYPES = ['string', 'number', 'bool', 'list(string)'];

const INTEGER = /^[-+]?\d+$/;

function stringList(text: string): string[] | undefined {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : undefined;
  } catch {
    return undefined;
  }
}

/** Says why the text is no value of the type. */
function typeError(type: string, value: string): string | undefined {
  const shown = JSON.stringify(value);
  if (type === 'number') return INTEGER.test(value) ? undefined : `${shown} is not a whole number`;
  if (type === 'bool') return value === 'true' || value === 'false' ? undefined : `${shown} is neither true nor false`;
  if (type === 'list(string)') return stringList(value) ? undefined : `${shown} is not a JSON list of strings`;
  return undefined;
}

const given = (config: Obj, name: string) => config[name] !== null && config[name] !== undefined;

function checkRules(config: Obj, rule: Obj, diagnostics: Diagnostics): void {
  const type = str(config, 'type');
  const at = (name: string) => ['validation', 0, name] as const;
  const only = (name: string, wanted: string) => {
    if (given(rule, name) && rule[name] !== '' && type !== wanted)
      diagnostics.error(at(name), 'Invalid validation', `${name} is for a ${wanted}, the type is ${type}.`);
  };
  for (const name of ['min', 'max', 'monotonic']) only(name, 'number');
  only('regex', 'string');
  const regex = str(rule, 'regex');
  const wrong = regex === '' ? undefined : regexError(regex);
  if (wrong) diagnostics.error(at('regex'), 'Invalid validation', `regex: ${wrong}.`);
  if (regex !== '' && str(rule, 'error') === '' && !isUnknown(rule['error']))
    diagnostics.error(at('error'), 'Invalid validation', 'A regex needs an error that tells people what to enter.');
  const [min, max] = [num(rule, 'min'), num(rule, 'max')];
  if (min !== undefined && max !== undefined && min > max)
    diagnostics.error(at('min'), 'Invalid validation', `min ${min} is greater than max ${max}.`);
}

/** Whether the parameter makes sense in itself. Works on a configuration with unknown parts, as defaults applied. */
export function checkDefinition(config: Obj, diagnostics: Diagnostics): void {
  const type = str(config, 'type');
  if (!TYPES.includes(type)) return; // unknown, or already refused by the schema
  const form = formTypeError(config);
  if (form) diagnostics.error(['form_type'], 'Invalid form_type', `form_type: ${form}.`);
  if (bool(config, 'ephemeral')) {
    if (config['mutable'] === false)
      diagnostics.error(['mutable'], 'Immutable ephemeral parameter', 'An ephemeral parameter must be mutable.');
    if (config['default'] === null)
      diagnostics.error(['default'], 'Ephemeral parameter without default', 'An ephemeral parameter needs a default.');
  }
  for (const rule of blocks(config, 'validation')) checkRules(config, rule, diagnostics);

  // The options of a multi-select are the members that a list is made of, not lists themselves.
  const optionType = formTypeOf(config) === 'multi-select' ? 'string' : type;
  const seen = { name: new Set<string>(), value: new Set<string>() };
  for (const [i, option] of blocks(config, 'option').entries()) {
    for (const part of ['name', 'value'] as const) {
      const text = option[part];
      if (typeof text !== 'string') continue;
      if (seen[part].has(text))
        diagnostics.error(['option', i, part], `Duplicate option ${part}`, `${JSON.stringify(text)} comes twice.`);
      seen[part].add(text);
    }
    const wrong = typeof option['value'] === 'string' ? typeError(optionType, option['value']) : undefined;
    if (wrong) diagnostics.error(['option', i, 'value'], 'Invalid option', `${wrong}.`);
  }
  const fallback = config['default'];
  if (typeof fallback === 'string' && !diagnostics.failed) {
    const wrong = typeError(type, fallback);
    if (wrong) diagnostics.error(['default'], 'Invalid default', `${wrong}.`);
    else if (!isUnknown(config['option'])) checkChoice(config, fallback, ['default'], diagnostics);
  }
}

/** With options, a value is one of them; for a multi-select, each member is. */
export function checkChoice(config: Obj, value: string, at: Path, diagnostics: Diagnostics): void {
  const options = blocks(config, 'option');
  if (options.length === 0 || options.some((option) => isUnknown(option['value']))) return;
  const allowed = options.map((option) => str(option, 'value'));
  const chosen = formTypeOf(config) === 'multi-select' ? stringList(value) : [value];
  const stray = chosen?.find((item) => !allowed.includes(item));
  if (stray === undefined) return;
  const name = JSON.stringify(str(config, 'name'));
  const list = allowed.map((item) => JSON.stringify(item)).join(', ');
  diagnostics.error(at, 'No such option', `Parameter ${name} must be one of ${list}, not ${JSON.stringify(stray)}.`);
}

function ruleError(rule: Obj, type: string, value: string, previous: string | undefined): string | undefined {
  if (type === 'number') {
    const n = Number(value);
    const [min, max] = [num(rule, 'min'), num(rule, 'max')];
    if (min !== undefined && n < min) return `${value} is less than the minimum of ${min}`;
    if (max !== undefined && n > max) return `${value} is more than the maximum of ${max}`;
    if (previous !== undefined && INTEGER.test(previous)) {
      const monotonic = str(rule, 'monotonic');
      if (monotonic === 'increasing' && n < Number(previous)) return `${value} is less than before (${previous})`;
      if (monotonic === 'decreasing' && n > Number(previous)) return `${value} is more than before (${previous})`;
    }
    return undefined;
  }
  const regex = str(rule, 'regex');
  if (type !== 'string' || regex === '') return undefined;
  return matches(regex, value) ? undefined : `${JSON.stringify(value)} does not match ${regex}`;
}

/** Holds a value against type and validation; the author's own words, with their placeholders filled, come first. */
export function checkValue(
  config: Obj,
  value: string,
  previous: string | undefined,
  at: Path,
  diagnostics: Diagnostics,
): void {
  const type = str(config, 'type');
  const summary = `Invalid value of parameter ${JSON.stringify(str(config, 'name'))}`;
  const wrong = typeError(type, value);
  if (wrong) {
    diagnostics.error(at, summary, `${wrong}.`);
    return;
  }
  for (const rule of blocks(config, 'validation')) {
    let said: string | undefined;
    try {
      said = ruleError(rule, type, value, previous);
    } catch (err) {
      said = (err as Error).message;
    }
    if (said === undefined) continue;
    const own = str(rule, 'error')
      .replaceAll('{min}', String(num(rule, 'min') ?? ''))
      .replaceAll('{max}', String(num(rule, 'max') ?? ''))
      .replaceAll('{value}', () => value);
    diagnostics.error(at, summary, own === '' ? `${said}.` : `${own}\n${said}.`);
  }
}
