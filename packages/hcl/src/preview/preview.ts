import { newWork, type Work } from '../evaluate.ts';
import type { Template } from '../program/configuration.ts';
import type { BlockInstance } from '../program/instances.ts';
import { Program } from '../program/program.ts';
import { Dict, EvaluationError, primitiveText, toBool } from '../values.ts';
import { findParameters, valueProblems } from './parameters.ts';
import { read, required } from './read.ts';
import { type Chosen, type PlannedValues, surroundings } from './surroundings.ts';
import { findTags, tagNotices } from './tags.ts';
import { error, type Notice, type Preview, type PreviewedParameter, type PreviewedPreset, warning } from './types.ts';

/**
 * Evaluates a template without Terraform: its parameters with the values chosen so far, its presets and its workspace
 * tags. Never throws because of a template's content.
 */
export function previewTemplate(
  template: Template,
  planned: PlannedValues,
  chosen: Chosen,
  work: Work = newWork(),
): Preview {
  const preview = evaluatePreview(template, planned, chosen, work);
  const secrets = chosen.variables.filter((one) => one.sensitive && one.value.length >= LEAST_SECRET);
  if (secrets.length > 0)
    for (const notice of noticesOf(preview))
      for (const { value } of secrets) notice.detail = notice.detail.replaceAll(value, '(sensitive)');
  return preview;
}

/** A shorter text is found in messages by chance. */
const LEAST_SECRET = 4;

const noticesOf = ({ diagnostics, parameters, presets }: Preview): Notice[] => [
  ...diagnostics,
  ...[...parameters, ...presets].flatMap((one) => one.diagnostics),
];

function evaluatePreview(template: Template, planned: PlannedValues, chosen: Chosen, work: Work): Preview {
  const diagnostics: Notice[] = [];
  const empty: Preview = { parameters: [], presets: [], tags: {}, unknownTags: [], diagnostics };
  try {
    const program = new Program(template, surroundings(template, planned, chosen, work), work);
    const parameters = findParameters(program, chosen.inputs, diagnostics);
    const presets = findPresets(program, parameters, (values) => {
      const inputs = { ...chosen.inputs, ...values };
      const other = new Program(template, surroundings(template, planned, { ...chosen, inputs }, work), work);
      return findParameters(other, inputs, []);
    });
    const found = findTags(program);
    diagnostics.push(...tagNotices(found));
    for (const module of new Set(program.modules().map(({ configuration }) => configuration)))
      for (const { file, line, message } of module.diagnostics)
        diagnostics.push(error('A file of the template cannot be parsed', `${file}:${line}: ${message}`));
    for (const [call] of program.missing)
      diagnostics.push(
        warning(
          `Module ${JSON.stringify(call.labels[0])} is not loaded`,
          `${call.file}:${call.line}: The server does not have the module's files. Its parameters are left out.`,
          'module_not_loaded',
        ),
      );
    return { parameters, presets, tags: Object.fromEntries(found.tags), unknownTags: found.unknownTags, diagnostics };
  } catch (err) {
    if (!(err instanceof EvaluationError)) throw err;
    diagnostics.push(error('The template cannot be evaluated', err.message));
    return empty;
  }
}

/** `parametersWith` returns the parameters with the values of a preset, which may show others or offer other options. */
function findPresets(
  program: Program,
  parameters: readonly PreviewedParameter[],
  parametersWith: (values: Readonly<Record<string, string>>) => PreviewedParameter[],
): PreviewedPreset[] {
  const found: PreviewedPreset[] = [];
  for (const module of program.modules())
    for (const { body } of byAddress(module.dataInstances('coder_workspace_preset'))) {
      const notices: Notice[] = [];
      const name = required(body, 'name');
      if (typeof name !== 'string') notices.push(name);
      const isDefault = read(body, 'default');
      const preset: PreviewedPreset = {
        name: typeof name === 'string' ? name : '',
        default: isDefault !== undefined && !(isDefault instanceof EvaluationError) && isTrue(isDefault),
        parameters: {},
        diagnostics: notices,
      };
      const first = found.find((other) => other.default);
      if (preset.default && first)
        notices.push(error('Several default presets', `${JSON.stringify(first.name)} is the default already.`));
      const values = read(body, 'parameters');
      for (const [key, value] of values instanceof Dict ? values.entries : []) {
        const text = primitiveText(value);
        if (text === undefined) continue;
        preset.parameters[key] = text;
      }
      const problems = presetProblems(preset.parameters, parameters);
      if (problems.length > 0) notices.push(...presetProblems(preset.parameters, parametersWith(preset.parameters)));
      found.push(preset);
    }
  return found;
}

function presetProblems(values: Readonly<Record<string, string>>, parameters: readonly PreviewedParameter[]): Notice[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const parameter = parameters.find((one) => one.name === name);
    if (parameter) return valueProblems(parameter, value);
    const why = `The template has no parameter ${JSON.stringify(name)}, which the preset sets.`;
    return [error('Undefined parameter', why)];
  });
}

/** In the order of Terraform's plans. */
const byAddress = (instances: readonly BlockInstance[]) =>
  instances.toSorted((a, b) => (a.address < b.address ? -1 : 1));

function isTrue(value: Parameters<typeof toBool>[0]): boolean {
  try {
    return toBool(value);
  } catch {
    return false;
  }
}
