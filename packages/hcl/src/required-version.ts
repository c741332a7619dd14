import { sourceNames } from './module.ts';
import { parseHcl } from './parser.ts';

/** Larger files are not read for it, so that this takes milliseconds at most. Terraform itself checks every file. */
const MOST_BYTES = 64 * 1024;

/**
 * The constraints `required_version` in the `terraform` blocks of a template's top folder. `files`: by path from its
 * root. Leaves out what cannot be read: Terraform reports it later.
 */
export function requiredVersions(files: Readonly<Record<string, string | Uint8Array>>): string[] {
  const found: string[] = [];
  for (const name of sourceNames(Object.keys(files))) {
    const content = files[name]!;
    if (content.length > MOST_BYTES) continue;
    const text = typeof content === 'string' ? content : new TextDecoder().decode(content);
    if (!text.includes('required_version')) continue;
    found.push(...(name.endsWith('.json') ? ofJson(text) : ofNative(text, name)));
  }
  return found;
}

function ofNative(text: string, name: string): string[] {
  return parseHcl(text, name)
    .body.blocks.filter(({ type }) => type === 'terraform')
    .flatMap(({ body }) => {
      const constraint = body.attributes.get('required_version')?.value;
      if (constraint?.kind === 'literal' && typeof constraint.value === 'string') return [constraint.value];
      const parts = constraint?.kind === 'template' ? constraint.parts : [];
      return parts.length > 0 ? [parts.map((part) => (part.kind === 'text' ? part.text : '?')).join('')] : [];
    });
}

function ofJson(text: string): string[] {
  try {
    const { terraform } = JSON.parse(text) as { terraform?: unknown };
    const blocks = (Array.isArray(terraform) ? terraform : [terraform]) as (
      | { required_version?: unknown }
      | undefined
    )[];
    return blocks.map((block) => block?.required_version).filter((value) => typeof value === 'string');
  } catch {
    return [];
  }
}
