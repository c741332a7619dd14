import { FORM_TYPES, PARAMETER_TYPES } from '@ropewalk/rules/parameter';
import { address, matching, oneOf, whole } from '../../checks.ts';
import { parameterValue, previousParameterValue, stableId } from '../../environment.ts';
import { computed, idAttribute, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { blocks, bool, isUnknown, str } from '../../value.ts';
import { formTypeOf } from './form-type.ts';
import { checkDefinition, checkValue } from './validation.ts';

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'A value that people choose when they create or update a workspace.',
    attributes: {
      id: idAttribute,
      name: required('string', 'Name of the parameter, unique in a template.'),
      display_name: optional('string', 'Name shown in the dashboard.'),
      description: optional('string', 'What the parameter is for, in Markdown.'),
      type: optional('string', 'Type of the value.', { default: 'string', check: oneOf(...PARAMETER_TYPES) }),
      form_type: optional('string', 'Form control for the value.', { check: oneOf(...FORM_TYPES) }),
      styling: optional('string', 'Details of the form control, as JSON.', { default: '{}' }),
      mutable: optional('bool', 'Whether the value can change after the workspace is created.', { default: false }),
      ephemeral: optional('bool', 'Whether to discard the value after the build.', { default: false }),
      default: optional('string', 'Value if nobody chose one.'),
      icon: optional('string', 'URL of an icon.', { check: address }),
      order: optional('number', 'Position among the parameters, lowest first.', { check: whole() }),
      optional: computed('bool', 'Whether the parameter has a default.'),
      value: computed('string', 'The chosen value.'),
    },
    blocks: {
      option: {
        nesting: 'list',
        block: {
          attributes: {
            name: required('string', 'Name shown in the dashboard.'),
            value: required('string', 'Value of the parameter if this option is chosen.'),
            description: optional('string', 'What the option means.'),
            icon: optional('string', 'URL of an icon.', { check: address }),
          },
        },
      },
      validation: {
        nesting: 'list',
        maxItems: 1,
        computed: true,
        block: {
          attributes: {
            min: optional('number', 'Minimum of a number.', { check: whole() }),
            max: optional('number', 'Maximum of a number.', { check: whole() }),
            monotonic: optional('string', 'Direction in which a number may change.', {
              check: matching(/^(increasing|decreasing|)$/, 'must be "increasing" or "decreasing"'),
            }),
            regex: optional('string', 'Regular expression that a string must match.'),
            error: optional('string', 'Error message for an invalid value. May contain {min}, {max} and {value}.'),
            min_disabled: computed('bool', 'Whether min was not set.'),
            max_disabled: computed('bool', 'Whether max was not set.'),
          },
        },
      },
    },
  },

  validate(config, { diagnostics }) {
    checkDefinition(config, diagnostics);
  },

  read(config, { env, diagnostics }) {
    checkDefinition(config, diagnostics);
    const name = str(config, 'name');
    const chosen = parameterValue(env, name);
    const fallback = config['default'];
    const value = chosen ?? (typeof fallback === 'string' ? fallback : undefined);
    if (!diagnostics.failed) {
      const at = chosen === undefined ? ['default'] : ['value'];
      checkValue(config, value, previousParameterValue(env, name), at, diagnostics);
    }
    return {
      ...config,
      id: stableId('parameter', name),
      form_type: formTypeOf(config) ?? null,
      optional: fallback !== null && !isUnknown(fallback),
      value: value ?? '',
      validation: blocks(config, 'validation').map((rule) => ({
        ...rule,
        min: rule['min'] ?? 0,
        max: rule['max'] ?? 0,
        monotonic: str(rule, 'monotonic'),
        regex: str(rule, 'regex'),
        error: str(rule, 'error'),
        min_disabled: rule['min'] === null,
        max_disabled: rule['max'] === null,
      })),
      mutable: bool(config, 'mutable'),
    };
  },
};
