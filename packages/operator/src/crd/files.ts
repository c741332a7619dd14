import { stringify } from 'yaml';
import { CUSTOM_RESOURCES } from './index.ts';
import { manifestOf } from './manifest.ts';
import { referencePage } from './reference.ts';

/** The committed files that are made from the definitions, by their path in the repository. */
export function generatedFiles(): [path: string, text: string][] {
  return [
    ...CUSTOM_RESOURCES.map((resource): [string, string] => [
      `charts/coder-operator/crds/${resource.plural}.yaml`,
      stringify(manifestOf(resource), { aliasDuplicateObjects: false, lineWidth: 120 }),
    ]),
    ['docs/reference/crds.md', referencePage(CUSTOM_RESOURCES)],
  ];
}
