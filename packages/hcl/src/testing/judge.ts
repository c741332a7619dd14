import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { PlannedValues, type Preview, type PreviewOwner, previewTemplate, Template } from '../index.ts';

/** The inputs of one evaluation, for upstream's evaluator and for this one. */
export interface Question {
  dir: string;
  plan?: string;
  inputs?: Record<string, string>;
  owner?: Partial<PreviewOwner>;
  vars?: Record<string, string>;
}

/** What both evaluators must agree on. Wording differs, so problems count by severity. */
export interface Verdict {
  parameters: object[];
  presets: object[];
  tags: Record<string, string>;
  unknownTags: string[];
  problems: string[];
}

const folder = process.env['UPSTREAM_PREVIEW'];

/** Whether the judge was built. */
export const hasJudge = folder !== undefined && existsSync(join(folder, 'preview-judge'));
export const testdata = join(folder ?? '', 'testdata');

interface Text {
  value: string;
  valid: boolean;
}
const shown = ({ value, valid }: Text) => (valid ? value : null);
const severities = (list: { severity: string }[] | null) => (list ?? []).map(({ severity }) => severity).sort();

interface Answer {
  parameters: (Record<string, unknown> & { name: string; value: Text; default_value: Text })[] | null;
  presets: { name: string; default?: boolean; parameters: object; diagnostics: { severity: string }[] | null }[] | null;
  tags: Record<string, string> | null;
  unknown_tags: string[] | null;
  diagnostics: { severity: string }[] | null;
}

function verdict({ parameters, presets, tags, unknown_tags: unknownTags, diagnostics }: Answer): Verdict {
  return {
    parameters: (parameters ?? []).map((parameter) => ({
      ...parameter,
      value: shown(parameter.value),
      default_value: shown(parameter.default_value),
      options: (parameter['options'] as { value: Text }[]).map((option) => ({ ...option, value: shown(option.value) })),
      diagnostics: severities(parameter['diagnostics'] as { severity: string }[]),
    })),
    presets: (presets ?? []).map((preset) => ({
      name: preset.name,
      parameters: preset.parameters,
      problems: severities(preset.diagnostics),
    })),
    tags: tags ?? {},
    unknownTags: (unknownTags ?? []).sort(),
    problems: severities(diagnostics),
  };
}

export function upstream(questions: readonly Question[]): Verdict[] {
  const lines = questions.map((question) => `${JSON.stringify(question)}\n`);
  const { stdout, stderr, status } = spawnSync(join(folder!, 'preview-judge'), {
    input: lines.join(''),
    encoding: 'utf8',
    timeout: 120_000,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(stderr);
  return stdout
    .trim()
    .split('\n')
    .map((line) => verdict(JSON.parse(line) as Answer));
}

export function templateIn(dir: string): Template {
  const paths = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(dir, join(entry.parentPath, entry.name)));
  const known = new Set(paths);
  return new Template({
    read: (path) => (known.has(path) ? readFileSync(join(dir, path)) : undefined),
    paths: () => paths,
  });
}

const NOBODY: PreviewOwner = {
  id: '',
  name: '',
  full_name: '',
  email: '',
  login_type: '',
  ssh_public_key: '',
  groups: [],
  rbac_roles: [],
};

export function ours({ dir, plan, inputs = {}, owner, vars = {} }: Question): Verdict {
  const planned = new PlannedValues(plan ? JSON.parse(readFileSync(join(dir, plan), 'utf8')) : undefined);
  const variables = Object.entries(vars).map(([name, value]) => ({ name, type: 'string', value }));
  const chosen = { inputs, owner: { ...NOBODY, ...owner }, variables };
  const { unknownTags, ...rest }: Preview = previewTemplate(templateIn(dir), planned, chosen);
  const validations = (list: Preview['parameters'][number]['validations']) =>
    list.map(({ error, regex, min, max, monotonic }) => ({
      validation_error: error,
      validation_regex: regex,
      validation_min: min,
      validation_max: max,
      validation_monotonic: monotonic,
    }));
  const parameters = rest.parameters.map((one) => ({ ...one, validations: validations(one.validations) }));
  return verdict({ ...rest, parameters, unknown_tags: unknownTags });
}
