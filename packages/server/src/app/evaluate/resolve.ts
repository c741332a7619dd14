import type { Notice, Preview, PreviewedParameter } from '@ropewalk/hcl';
import { AppError, type Validation } from '@ropewalk/kit';
import { validationProblem } from '@ropewalk/rules/parameter';
import type { NameValue } from './parameter-values.ts';
import { type PreviewRequest, type Render, rendererOf } from './preview.ts';

/** The values that people, a preset and the last build give to a build, as plain data for a worker thread. */
export interface ResolveRequest extends PreviewRequest {
  given: readonly NameValue[];
  preset: Readonly<Record<string, string>>;
  /** Absent for the first build. */
  last: readonly NameValue[] | undefined;
  /** Whether the values of the last build are used as they are, so that a running workspace can always be stopped. */
  trustLast: boolean;
}

/**
 * Runs on a worker thread: the values that a build uses. Undefined when the version's files are needed and not given.
 * @throws AppError `invalid` that names every wrong parameter
 */
export async function resolveValues(request: ResolveRequest): Promise<NameValue[] | undefined> {
  const render = await rendererOf(request);
  return render && resolved(render, request);
}

const record = (values: readonly NameValue[]): Record<string, string> =>
  Object.fromEntries(values.map(({ name, value }) => [name, value]));

function resolved(render: Render, { given, preset, last = [], trustLast }: ResolveRequest): NameValue[] {
  const before = new Map(last.map(({ name, value }) => [name, value]));
  const chosen = { ...record(given), ...preset };
  const kept = record(last);
  // an ephemeral value counts for one build only
  if (last.length > 0) for (const { name, ephemeral } of render(kept).parameters) if (ephemeral) delete kept[name];
  const values = { ...kept, ...chosen };
  const preview = render(values);
  if (!trustLast) rejectUnreadable(preview);
  const wrong: Validation[] = [];
  for (const parameter of preview.parameters) {
    const { name, value } = parameter;
    const old = before.get(name);
    if (trustLast && value.valid && value.value === old) continue;
    for (const problem of problemsOf(parameter, old)) wrong.push({ field: name, detail: problem });
  }
  if (wrong.length > 0)
    throw new AppError('invalid', `Invalid parameters: ${wrong.map(({ detail }) => detail).join('; ')}`, {
      validations: wrong,
    });
  // stored, so that a later version with another default does not change this workspace
  for (const { name, value } of preview.parameters)
    if (!Object.hasOwn(values, name) && value.valid) values[name] = value.value;
  return stored(values, preview, trustLast);
}

function rejectUnreadable({ diagnostics }: Preview): void {
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  if (errors.length === 0) return;
  throw new AppError('invalid', "The template's parameters cannot be evaluated.", {
    detail: errors.map(textOf).join('\n'),
  });
}

const textOf = ({ summary, detail }: Notice): string => (detail ? `${summary}: ${detail}` : summary);

/** Why a parameter does not accept its value, compared with that of the last build. */
function problemsOf(parameter: PreviewedParameter, old: string | undefined): string[] {
  const { name, value, mutable, type, form_type: formType, validations } = parameter;
  const errors = parameter.diagnostics.filter(({ severity }) => severity === 'error');
  if (errors.length > 0) return errors.map((notice) => `parameter "${name}": ${textOf(notice)}`);
  if (old === undefined || !value.valid) return [];
  if (!mutable && value.value !== old)
    return [`parameter "${name}" is not mutable, so it can't be changed after the workspace was created`];
  const [rule] = validations;
  if (!rule?.monotonic) return [];
  const validation = { monotonic: rule.monotonic, regex: '', error: rule.error };
  const broken = validationProblem({ type, formType, options: [], validation }, value.value, old);
  return broken ? [`parameter "${name}": ${broken.own || broken.problem}`] : [];
}

/**
 * Leaves out values without a parameter: a condition hides it. They stay if the evaluation may not know all parameters,
 * and in builds that stop the workspace, because the next start needs them.
 */
function stored(values: Record<string, string>, preview: Preview, trustLast: boolean): NameValue[] {
  const incomplete = preview.diagnostics.some(
    ({ severity, code }) => severity === 'error' || code === 'module_not_loaded',
  );
  const shown = new Set(preview.parameters.map(({ name }) => name));
  return Object.entries(values)
    .filter(([name]) => trustLast || incomplete || shown.has(name))
    .map(([name, value]) => ({ name, value }));
}
