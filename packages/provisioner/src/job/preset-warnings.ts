// Reports presets that no build can use when the template is imported. Otherwise people learn it when they choose one, and
// administrators when a pool of prebuilt workspaces stays empty.

import {
  type GivenVariable,
  type Notice,
  newWork,
  PlannedValues,
  type PreviewedPreset,
  previewTemplate,
  Template,
  type Work,
} from '@ropewalk/hcl';
import type { Preset, TemplateVariable, VariableValue } from '@ropewalk/wire/proto/provisioner';
import { archiveFiles } from '../terraform/archive-files.ts';

/** The steps of an evaluation that a job leaves out. The rest is a quarter of the limit: other jobs share the thread. */
const SPENT_STEPS = 300_000;

/** The limits of an evaluation by a job. */
export const newJobWork = (): Work => ({ ...newWork(), steps: SPENT_STEPS });

/** The values of the root module's variables, with the types that it declares. */
export function typedVariables(
  values: readonly VariableValue[],
  declared: readonly Pick<TemplateVariable, 'name' | 'type'>[],
): GivenVariable[] {
  const types = new Map(declared.map(({ name, type }) => [name, type]));
  return values.map((one) => ({ ...one, type: types.get(one.name) ?? '' }));
}

/** Of presets, and of problems of one preset, in the log. */
const MAX_REPORTED = 10;

interface Imported {
  /** The archives of the template and of its fetched modules. */
  archives: readonly Uint8Array[];
  plan: unknown;
  presets: readonly Preset[];
  variables: readonly VariableValue[];
  declared: readonly Pick<TemplateVariable, 'name' | 'type'>[];
  accessUrl: string;
}

/** The owner of prebuilt workspaces, with upstream's id. Options that depend on the owner are judged for it. */
const OWNER = {
  ...{ id: 'c42fdf75-3097-471c-8c33-fb52454d81c0', name: 'prebuilds', full_name: 'Prebuilds' },
  ...{ email: 'prebuilds@system', login_type: 'none', ssh_public_key: '' },
  ...{ groups: ['Everyone'], rbac_roles: [{ name: 'member', org_id: '' }] },
};

/** A sentence for each preset that cannot be used. Empty if the evaluation itself takes too long. */
export async function presetWarnings(imported: Imported): Promise<string[]> {
  const { archives, plan, presets, accessUrl } = imported;
  if (presets.length === 0) return [];
  const files = new Map<string, Uint8Array>();
  for (const archive of archives)
    for (const [path, data] of Object.entries(await archiveFiles(archive, /\.(tf|tfvars)(\.json)?$/)))
      files.set(path, data);
  const template = new Template({ read: (path) => files.get(path), paths: () => files.keys() });
  const planned = new PlannedValues(plan);
  const work = newJobWork();
  const variables = typedVariables(imported.variables, imported.declared);
  const preview = (inputs: Readonly<Record<string, string>>) =>
    previewTemplate(template, planned, { inputs, owner: OWNER, accessUrl, variables }, work);
  const known = new Map(presets.map((preset) => [preset.name, preset]));
  const all = preview({});
  if (hasErrors(all.diagnostics)) return [];
  const warnings: string[] = [];
  for (const found of all.presets) {
    const problems = [...found.diagnostics, ...(isPool(known.get(found.name)) ? missing(found, preview) : [])];
    const texts = [...new Set(problems.filter(isError).map(textOf))].slice(0, MAX_REPORTED);
    if (texts.length === 0) continue;
    const pool = isPool(known.get(found.name)) ? ' Its pool of prebuilt workspaces stays empty.' : '';
    warnings.push(`Preset ${JSON.stringify(found.name)} cannot be used: ${texts.join(' ')}${pool}`);
  }
  return warnings.slice(0, MAX_REPORTED);
}

/** What a pool lacks: nobody enters the values that its preset does not set. */
function missing(
  found: PreviewedPreset,
  preview: (inputs: Record<string, string>) => ReturnType<typeof previewTemplate>,
) {
  const { parameters, diagnostics } = preview(found.parameters);
  if (hasErrors(diagnostics)) return [];
  return parameters
    .filter(({ name }) => !Object.hasOwn(found.parameters, name))
    .flatMap((parameter) =>
      parameter.diagnostics.map((notice) => ({
        ...notice,
        detail: `Parameter ${JSON.stringify(parameter.name)}: ${notice.detail}`,
      })),
    );
}

const isPool = (preset: Preset | undefined): boolean =>
  (preset?.prebuild?.instances ?? 0) > 0 || (preset?.prebuild?.scheduling?.schedule.length ?? 0) > 0;

const isError = ({ severity }: Notice): boolean => severity === 'error';
const hasErrors = (notices: readonly Notice[]): boolean => notices.some(isError);
const textOf = ({ summary, detail }: Notice): string => `${summary}: ${/[.!?]$/.test(detail) ? detail : `${detail}.`}`;
