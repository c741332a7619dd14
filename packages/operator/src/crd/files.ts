import { stringify } from 'yaml';
import { CONTROL_PLANES } from './control-plane.ts';
import { type CustomResource, manifestOf } from './manifest.ts';
import { PROVISIONERS } from './provisioner.ts';
import { referencePage } from './reference.ts';
import { WORKSPACE_PROXIES } from './workspace-proxy.ts';

/** Every resource of the operator. */
export const CUSTOM_RESOURCES: readonly CustomResource[] = [CONTROL_PLANES, PROVISIONERS, WORKSPACE_PROXIES];

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
