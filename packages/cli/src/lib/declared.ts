import type { Client } from '@ropewalk/client';
import type { PreviewParameter, TemplateVersionParameter } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { NamedValue } from './values.ts';

export interface Declared {
  parameters: readonly TemplateVersionParameter[];
  /** Why the server does not accept a value, by parameter. */
  problems: ReadonlyMap<string, string>;
  /** The parameters whose default only a build knows. */
  computed: ReadonlySet<string>;
}

/** Finds the parameters of a version, which can depend on the values so far. */
export type Declare = (values: readonly NamedValue[]) => Promise<Declared>;

/** The parameters that the import of the version found, whatever the values are. */
export function classicParameters(client: Client, templateversion: string): Declare {
  let found: Promise<TemplateVersionParameter[]> | undefined;
  return async () => {
    found ??= client.call('GET /templateversions/{templateversion}/rich-parameters', { params: { templateversion } });
    return { parameters: await found, problems: new Map(), computed: new Set() };
  };
}

/** The parameters as the server evaluates them with the values so far, for the owner of the workspace. */
export function dynamicParameters(client: Client, templateversion: string, ownerId: string | undefined): Declare {
  let last: { key: string; declared: Declared } | undefined;
  return async (values) => {
    const inputs = Object.fromEntries(values.map(({ name, value }) => [name, value]));
    const key = JSON.stringify(inputs);
    if (last?.key === key) return last.declared;
    const { parameters, diagnostics } = await client.call(
      'POST /templateversions/{templateversion}/dynamic-parameters/evaluate',
      { params: { templateversion }, body: { inputs, ...(ownerId ? { owner_id: ownerId } : {}) } },
    );
    const fatal = diagnostics.find(({ severity }) => severity === 'error');
    if (fatal) throw new AppError('invalid', `${fatal.summary}${fatal.detail ? `: ${fatal.detail}` : '.'}`);
    const problems = parameters.flatMap(({ name, diagnostics: own }): [string, string][] => {
      const problem = own.find(({ severity }) => severity === 'error');
      return problem ? [[name, problem.detail || problem.summary]] : [];
    });
    const computed = parameters.filter(({ required, default_value: fallback }) => !required && !fallback.valid);
    const declared = {
      parameters: parameters.map(toParameter),
      problems: new Map(problems),
      computed: new Set(computed.map(({ name }) => name)),
    };
    last = { key, declared };
    return declared;
  };
}

function toParameter(parameter: PreviewParameter): TemplateVersionParameter {
  const { name, display_name, description, type, form_type, icon, mutable, ephemeral, required } = parameter;
  const [rule] = parameter.validations;
  const monotonic = rule?.validation_monotonic;
  return {
    name,
    display_name,
    description,
    description_plaintext: description,
    type,
    form_type,
    icon,
    mutable,
    ephemeral,
    required,
    default_value: parameter.default_value.valid ? parameter.default_value.value : '',
    options: parameter.options.map((option) => ({ ...option, value: option.value.value })),
    validation_error: rule?.validation_error ?? '',
    validation_regex: rule?.validation_regex ?? '',
    ...(rule?.validation_min == null ? {} : { validation_min: rule.validation_min }),
    ...(rule?.validation_max == null ? {} : { validation_max: rule.validation_max }),
    ...(monotonic === 'increasing' || monotonic === 'decreasing' ? { validation_monotonic: monotonic } : {}),
  };
}
