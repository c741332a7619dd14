import {
  type Chosen,
  type Notice,
  type Preview,
  type PreviewedParameter,
  previewTemplate,
  valueProblems,
} from '@ropewalk/hcl';
import { ownValue } from '@ropewalk/kit/own-value';
import { formTypesFor } from '@ropewalk/rules/parameter';
import type { ParameterRow } from '../../db/queries/version-contents.ts';
import { readVersion, type VersionSource } from './templates.ts';

/** What the parameters of a version are evaluated from. */
export type PreviewSubject =
  | { version: VersionSource }
  /** The results of an import by a daemon that is too old to send what an evaluation needs. */
  | { stored: readonly ParameterRow[] };

export interface PreviewRequest {
  subject: PreviewSubject;
  chosen: Chosen;
}

/** Evaluates a version's parameters with some values. */
export type Render = (inputs: Readonly<Record<string, string>>) => Preview;

/** Undefined when the version's files are needed and not given. */
export async function rendererOf({ subject, chosen }: PreviewRequest): Promise<Render | undefined> {
  if ('stored' in subject) return (inputs) => previewStored(subject.stored, inputs);
  const version = await readVersion(subject.version);
  return version && ((inputs) => previewTemplate(version.template, version.planned, { ...chosen, inputs }));
}

/** Runs on a worker thread. Undefined when the version's files are needed and not given. */
export async function previewParameters(request: PreviewRequest): Promise<Preview | undefined> {
  const render = await rendererOf(request);
  return render?.(request.chosen.inputs);
}

const OLD: Notice = {
  severity: 'warning',
  summary: 'This template version cannot be evaluated while you type',
  detail: 'It was imported by a provisioner daemon that is too old for dynamic parameters. Import it as a new version.',
  code: '',
};

function previewStored(rows: readonly ParameterRow[], inputs: Readonly<Record<string, string>>): Preview {
  const parameters = rows.map((row) => previewRow(row, ownValue(inputs, row.name)));
  return { parameters, presets: [], tags: {}, unknownTags: [], diagnostics: [OLD] };
}

function previewRow(row: ParameterRow, input: string | undefined): PreviewedParameter {
  const { validation_min: min, validation_max: max, validation_regex: regex, validation_monotonic: monotonic } = row;
  const validated = min !== null || max !== null || regex !== '' || monotonic !== '';
  const text = (value: string | undefined) => ({ value: value ?? '', valid: value !== undefined });
  const value = input ?? (row.required ? undefined : row.default_value);
  const parameter: PreviewedParameter = {
    name: row.name,
    display_name: row.display_name,
    description: row.description,
    type: row.type,
    form_type: row.form_type || (formTypesFor(row.type, row.options.length > 0)?.[0] ?? ''),
    styling: {},
    mutable: row.mutable,
    ephemeral: row.ephemeral,
    required: row.required,
    default_value: text(row.required ? undefined : row.default_value),
    value: text(value),
    icon: row.icon,
    order: row.display_order,
    options: row.options.map((option) => ({ ...option, value: text(option.value) })),
    validations: validated
      ? [{ error: row.validation_error, regex: regex || null, min, max, monotonic: monotonic || null }]
      : [],
    diagnostics: [],
  };
  if (value === undefined)
    parameter.diagnostics.push({
      severity: 'error',
      summary: 'Required parameter not provided',
      detail: 'Enter a value.',
      code: 'required',
    });
  else parameter.diagnostics.push(...valueProblems(parameter, value));
  return parameter;
}
