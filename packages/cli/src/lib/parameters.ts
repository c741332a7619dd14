import type { Client } from '@ropewalk/client';
import type { Preset, TemplateVersionParameter } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { note } from '../framework/io.ts';
import { classicParameters, dynamicParameters } from './declared.ts';
import { ask, choose } from './prompt.ts';
import { merged, type NamedValue, namedValues, valuesFile } from './values.ts';

/** The flags that set values of template parameters. */
export const parameterFlags = {
  parameter: {
    type: 'string[]',
    pairs: true,
    env: 'CODER_RICH_PARAMETER',
    description: 'Value of a template parameter, as name=value. May be repeated.',
  },
  'rich-parameter-file': {
    type: 'string',
    env: 'CODER_RICH_PARAMETER_FILE',
    description: 'YAML file with values of template parameters, one "name: value" per line.',
  },
  'parameter-default': {
    type: 'string[]',
    pairs: true,
    env: 'CODER_RICH_PARAMETER_DEFAULT',
    description:
      'Default value of a template parameter, as name=value. Replaces the default of the template. May be repeated.',
  },
  'use-parameter-defaults': {
    type: 'bool',
    env: 'CODER_WORKSPACE_USE_PARAMETER_DEFAULTS',
    description: 'Use the default of every parameter that has one, without asking.',
  },
  'build-option': {
    type: 'string[]',
    pairs: true,
    env: 'CODER_BUILD_OPTION',
    description: 'Deprecated. Use --ephemeral-parameter.',
  },
  'build-options': { type: 'bool', description: 'Deprecated. Use --prompt-ephemeral-parameters.' },
  'ephemeral-parameter': {
    type: 'string[]',
    pairs: true,
    env: 'CODER_EPHEMERAL_PARAMETER',
    description: 'Value of an ephemeral parameter, for this build only, as name=value. May be repeated.',
  },
  'prompt-ephemeral-parameters': {
    type: 'bool',
    env: 'CODER_PROMPT_EPHEMERAL_PARAMETERS',
    description: 'Ask for the value of every ephemeral parameter.',
  },
  'always-prompt': { type: 'bool', description: 'Ask for every parameter, even if it has a value.' },
} as const;

export interface ParameterFlagValues {
  parameter: string[];
  'rich-parameter-file': string;
  'parameter-default': string[];
  'use-parameter-defaults': boolean;
  'build-option': string[];
  'build-options': boolean;
  'ephemeral-parameter': string[];
  'prompt-ephemeral-parameters': boolean;
  'always-prompt': boolean;
}

/** A value and the flag that sets it, for messages. */
export interface GivenValue extends NamedValue {
  from: string;
}

/** The values of the parameter flags. A flag takes precedence over the file. */
export async function givenValues(flags: ParameterFlagValues): Promise<GivenValue[]> {
  const path = flags['rich-parameter-file'];
  const file = path === '' ? [] : await valuesFile(path);
  return merged(
    file.map((one) => ({ ...one, from: `${one.name}=${one.value} of --rich-parameter-file` })),
    namedValues(flags.parameter, 'parameter').map((one) => ({ ...one, from: `--parameter ${one.name}=${one.value}` })),
  );
}

export interface ParameterInput {
  versionId: string;
  /** Whether the template uses the parameters that its import found. Otherwise the server evaluates them for the owner. */
  classic: boolean;
  /** The owner of the workspace, for an evaluation. Absent: the caller. */
  ownerId?: string | undefined;
  flags: ParameterFlagValues;
  /** The values of the flags, if the caller has read them: some files can only be read once. */
  given?: readonly NamedValue[] | undefined;
  /** The values of the previous build. Empty for a new workspace. */
  previous?: readonly NamedValue[];
  isNew: boolean;
  /** Its values take precedence over all others, as they do on the server. */
  preset?: Preset | undefined;
  /** Use defaults without asking. */
  yes: boolean;
}

/**
 * The parameter values of a build, from the preset, the flags, the file and the previous build. Asks for missing values
 * or uses their defaults. Each answer can change which parameters follow. @throws AppError naming the missing or unknown parameter.
 */
export async function resolveParameters(ctx: Context, client: Client, input: ParameterInput): Promise<NamedValue[]> {
  const { flags, versionId } = input;
  const declare = input.classic
    ? classicParameters(client, versionId)
    : dynamicParameters(client, versionId, input.ownerId);
  const ephemeral = [
    ...namedValues(flags['build-option'], 'build-option'),
    ...namedValues(flags['ephemeral-parameter'], 'ephemeral-parameter'),
  ];
  const presetValues = (input.preset?.Parameters ?? []).map(({ Name, Value }) => ({ name: Name, value: Value }));
  const given = merged(input.given ?? (await givenValues(flags)), ephemeral, presetValues);
  const defaults = new Map(
    namedValues(flags['parameter-default'], 'parameter-default').map((one) => [one.name, one.value]),
  );
  const before = new Map((input.previous ?? []).map((one) => [one.name, one.value]));
  const promptEphemeral = flags['prompt-ephemeral-parameters'] || flags['build-options'];
  const byFlag = given.filter(({ name }) => !presetValues.some((one) => one.name === name));
  if (input.classic) checkKnown((await declare([])).parameters, byFlag, ephemeral);
  const values: NamedValue[] = [];
  const seen = new Set<string>();
  const known = () => merged(input.previous ?? [], given, values);
  for (;;) {
    const { parameters, computed } = await declare(known());
    const parameter = parameters.find(({ name }) => !seen.has(name));
    if (!parameter) {
      // only now all conditions are decided
      checkKnown(parameters, byFlag, ephemeral);
      return values.filter(({ name }) => parameters.some((one) => one.name === name));
    }
    const { name } = parameter;
    seen.add(name);
    const explicit = given.find((one) => one.name === name);
    if (explicit) {
      if (!parameter.mutable && !input.isNew && before.has(name) && before.get(name) !== explicit.value) {
        throw new AppError(
          'invalid',
          `Cannot change the parameter ${JSON.stringify(name)}: it is fixed when the workspace is created.`,
        );
      }
      values.push({ name, value: explicit.value });
      continue;
    }
    const problem = async (value: string) => {
      if (input.classic) return checkValue(parameter, value);
      return (await declare(merged(known(), [{ name, value }]))).problems.get(name);
    };
    if (parameter.ephemeral) {
      if (promptEphemeral)
        values.push({ name, value: await askParameter(ctx, parameter, parameter.default_value, problem) });
      continue;
    }
    const kept = before.get(name);
    if (kept === undefined && computed.has(name) && !defaults.has(name)) continue;
    const asksAgain = flags['always-prompt'] && (parameter.mutable || input.isNew) && ctx.interactive;
    if (kept !== undefined && !asksAgain) continue;
    const fallback = kept ?? defaults.get(name) ?? (parameter.required ? undefined : parameter.default_value);
    if (fallback !== undefined && (input.yes || flags['use-parameter-defaults'] || !ctx.interactive)) {
      if (defaults.has(name)) values.push({ name, value: fallback });
      continue;
    }
    values.push({ name, value: await askParameter(ctx, parameter, fallback, problem) });
  }
}

function checkKnown(
  declared: readonly TemplateVersionParameter[],
  given: readonly NamedValue[],
  ephemeral: readonly NamedValue[],
): void {
  for (const { name } of given) {
    if (declared.some((one) => one.name === name)) continue;
    const names = declared.map((one) => one.name).join(', ');
    throw new AppError(
      'invalid',
      `Unknown parameter ${JSON.stringify(name)}. ${names ? `The template has: ${names}` : 'The template has no parameters'}.`,
    );
  }
  for (const { name } of ephemeral) {
    if (!declared.some((one) => one.name === name && one.ephemeral)) {
      throw new AppError('invalid', `The parameter ${JSON.stringify(name)} is not ephemeral. Set it with --parameter.`);
    }
  }
}

async function askParameter(
  ctx: Context,
  parameter: TemplateVersionParameter,
  fallback: string | undefined,
  check: (value: string) => Promise<string | undefined>,
): Promise<string> {
  const { name } = parameter;
  const missing = `Missing value for the parameter ${JSON.stringify(name)}. Set it with --parameter ${name}=<value>`;
  if (!ctx.interactive) throw new AppError('invalid', missing);
  note(ctx.io, parameter.display_name || name);
  if (parameter.description_plaintext) note(ctx.io, `  ${parameter.description_plaintext}`);
  const options =
    parameter.type === 'bool' && !parameter.options?.length
      ? [
          { value: 'true', label: 'true' },
          { value: 'false', label: 'false' },
        ]
      : (parameter.options ?? []).map((one) => ({ value: one.value, label: one.name }));
  if (options.length > 0 && parameter.type !== 'list(string)') {
    const first = fallback === undefined ? [] : options.filter(({ value }) => value === fallback);
    return choose(ctx, 'Choose', [...first, ...options.filter((one) => !first.includes(one))], missing);
  }
  return ask(ctx, {
    text: 'Value',
    ...(fallback === undefined ? {} : { fallback }),
    missing,
    check,
  });
}

export async function checkValue(parameter: TemplateVersionParameter, value: string): Promise<string | undefined> {
  const { type, validation_min: min, validation_max: max, validation_regex: regex } = parameter;
  if (value === '' && parameter.required) return 'Enter a value.';
  if (type === 'number') {
    const number = Number(value);
    if (value.trim() === '' || Number.isNaN(number)) return 'Enter a number.';
    if (min !== undefined && number < min) return `Enter at least ${min}.`;
    if (max !== undefined && number > max) return `Enter at most ${max}.`;
  }
  if (type === 'list(string)') {
    try {
      if (!Array.isArray(JSON.parse(value))) return 'Enter a JSON list of strings, such as ["a","b"].';
    } catch {
      return 'Enter a JSON list of strings, such as ["a","b"].';
    }
  }
  if (regex && type === 'string') {
    // large, and only needed here
    const { compile } = await import('@ropewalk/kit/re2');
    try {
      if (!compile(regex).test(value)) return parameter.validation_error || `The value must match ${regex}.`;
    } catch {
      // the expression is too costly for this value, so that the server checks it
    }
  }
  return undefined;
}
