import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import {
  type ExternalAuthProviderResource,
  ExternalAuthProviderResourceSchema,
  ParameterFormType,
  type Preset,
  PresetSchema,
  type RichParameter,
  RichParameterSchema,
} from '@ropewalk/wire/proto/provisioner';
import { blocks, bool, type Instance, int, str, strings, type Values } from './model.ts';

const FORM_TYPES: Record<string, ParameterFormType> = {
  error: ParameterFormType.FORM_ERROR,
  radio: ParameterFormType.RADIO,
  dropdown: ParameterFormType.DROPDOWN,
  input: ParameterFormType.INPUT,
  textarea: ParameterFormType.TEXTAREA,
  slider: ParameterFormType.SLIDER,
  checkbox: ParameterFormType.CHECKBOX,
  switch: ParameterFormType.SWITCH,
  'tag-select': ParameterFormType.TAGSELECT,
  'multi-select': ParameterFormType.MULTISELECT,
};

function data(instances: readonly Instance[], ...types: string[]): Instance[] {
  return instances.filter(({ mode, type }) => mode === 'data' && types.includes(type));
}

/** Finds the template's parameters in order of discovery. @throws AppError `invalid` if two have the same name. */
export function findParameters(instances: readonly Instance[]): RichParameter[] {
  return named(data(instances, 'coder_parameter'), 'parameter').map(({ values }) =>
    toParameter(str(values['name']), values),
  );
}

/**
 * The data sources, each once, although a plan can contain one twice. @throws AppError `invalid` if two different ones
 * have the same `name`.
 */
function named(instances: readonly Instance[], what: string): Instance[] {
  const addresses = new Map<string, string>();
  return instances.filter(({ values, address }) => {
    const name = str(values['name']);
    const before = addresses.get(name);
    // a data source that was read before the plan can be both in its prior state and in its planned values
    if (before === address) return false;
    if (before !== undefined)
      throw new AppError(
        'invalid',
        `duplicate ${what}: ${JSON.stringify(name)} is the name of ${before} and ${address}`,
      );
    addresses.set(name, address);
    return true;
  });
}

function toParameter(name: string, v: Values): RichParameter {
  const validation = blocks(v['validation'])[0];
  const bounds: { validationMin?: number; validationMax?: number } = {};
  if (validation) {
    // Before the *_disabled attributes existed, providers expressed "no limits" with two zeros.
    const old = validation['min_disabled'] === undefined && validation['max_disabled'] === undefined;
    const unset = old && int(validation['min']) === 0 && int(validation['max']) === 0;
    if (!unset && !bool(validation['min_disabled'])) bounds.validationMin = int(validation['min']);
    if (!unset && !bool(validation['max_disabled'])) bounds.validationMax = int(validation['max']);
  }
  return create(RichParameterSchema, {
    name,
    displayName: str(v['display_name']),
    description: str(v['description']),
    type: str(v['type']),
    mutable: bool(v['mutable']),
    defaultValue: str(v['default']),
    icon: str(v['icon']),
    options: blocks(v['option']).map((option) => ({
      name: str(option['name']),
      description: str(option['description']),
      value: str(option['value']),
      icon: str(option['icon']),
    })),
    validationRegex: str(validation?.['regex']),
    validationError: str(validation?.['error']),
    validationMonotonic: str(validation?.['monotonic']),
    ...bounds,
    required: !bool(v['optional']),
    order: int(v['order']),
    ephemeral: bool(v['ephemeral']),
    formType: ownValue(FORM_TYPES, str(v['form_type'])) ?? ParameterFormType.DEFAULT,
  });
}

/**
 * Finds the template's presets.
 * @throws AppError `invalid` for a repeated name and for more than one default.
 */
export function findPresets(instances: readonly Instance[]): Preset[] {
  const out: Preset[] = [];
  for (const { values: v } of named(data(instances, 'coder_workspace_preset'), 'preset')) {
    const values = strings(v['parameters']);
    const prebuilds = blocks(v['prebuilds'])[0];
    const expiration = blocks(prebuilds?.['expiration_policy'])[0];
    const scheduling = blocks(prebuilds?.['scheduling'])[0];
    out.push(
      create(PresetSchema, {
        name: str(v['name']),
        description: str(v['description']),
        icon: str(v['icon']),
        default: bool(v['default']),
        parameters: Object.entries(values).map(([name, value]) => ({ name, value })),
        prebuild: {
          instances: int(prebuilds?.['instances']),
          ...(expiration ? { expirationPolicy: { ttl: int(expiration['ttl']) } } : {}),
          ...(scheduling
            ? {
                scheduling: {
                  timezone: str(scheduling['timezone']),
                  schedule: blocks(scheduling['schedule']).map((entry) => ({
                    cron: str(entry['cron']),
                    instances: int(entry['instances']),
                  })),
                },
              }
            : {}),
        },
      }),
    );
  }
  const defaults = out.filter((preset) => preset.default).map(({ name }) => JSON.stringify(name));
  if (defaults.length > 1)
    throw new AppError('invalid', `a template can only have 1 default preset, this one has ${defaults.join(', ')}`);
  return out;
}

/** Finds the external auth providers that the template uses, each id once. */
export function findExternalAuth(instances: readonly Instance[]): ExternalAuthProviderResource[] {
  const out = new Map<string, ExternalAuthProviderResource>();
  for (const { values } of data(instances, 'coder_external_auth', 'coder_git_auth')) {
    const id = str(values['id']);
    if (id !== '' && !out.has(id))
      out.set(id, create(ExternalAuthProviderResourceSchema, { id, optional: bool(values['optional']) }));
  }
  return [...out.values()];
}
