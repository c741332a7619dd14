import type { CustomResource } from './manifest.ts';

/** The part of a JSON schema that the page shows. */
interface Shown {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: string[];
  required?: string[];
  properties?: Record<string, Shown>;
  items?: Shown;
  additionalProperties?: Shown;
  'x-kubernetes-preserve-unknown-fields'?: boolean;
  'x-kubernetes-validations'?: { message: string }[];
}

const HEAD = `# Custom resources

The resources of the Kubernetes operator, generated from their definitions in \`packages/operator/src/crd\`. How to use them:
[Kubernetes](../kubernetes.md).
`;

/** The reference page of all resources, as Markdown. */
export function referencePage(resources: readonly CustomResource[]): string {
  return HEAD + resources.map(section).join('');
}

function section({ group, version, kind, description, spec, status }: CustomResource): string {
  const schemas = JSON.parse(JSON.stringify({ spec, status })) as Record<'spec' | 'status', Shown>;
  const rules = rulesOf(schemas.spec);
  return [
    `\n## ${kind}\n\n${description} API version: \`${group}/${version}\`.\n`,
    `\n| field | type | description |\n|---|---|---|\n${rows('spec', schemas.spec).join('\n')}\n`,
    rules.length > 0
      ? `\nThe API server rejects an object unless:\n\n${rules.map((rule) => `- ${rule}`).join('\n')}\n`
      : '',
    `\n### Status\n\n| field | type | description |\n|---|---|---|\n${rows('status', schemas.status).join('\n')}\n`,
  ].join('');
}

function rows(path: string, { properties = {}, required = [] }: Shown): string[] {
  return Object.entries(properties).flatMap(([name, field]) => {
    const at = `${path}.${name}`;
    const notes = [
      field.description ?? '',
      required.includes(name) && field.default === undefined ? 'Required.' : '',
      isPlain(field.default) ? `Default: \`${String(field.default)}\`.` : '',
    ];
    const inner = field.items?.properties ? rows(`${at}[]`, field.items) : rows(at, field);
    const shown = path === 'status' && name === 'conditions' ? [] : inner;
    return [`| \`${at}\` | ${typeOf(field)} | ${notes.filter((note) => note !== '').join(' ')} |`, ...shown];
  });
}

const isPlain = (value: unknown) => value !== undefined && typeof value !== 'object';

function typeOf(field: Shown): string {
  if (field.enum) return field.enum.map((value) => `\`${value}\``).join(', ');
  if (field.type === 'array') return `list of ${field.items ? typeOf(field.items) : 'any'}`;
  if (field['x-kubernetes-preserve-unknown-fields']) return "Kubernetes' own form";
  if (field.additionalProperties) return 'map of strings';
  return field.type ?? 'any';
}

function rulesOf(schema: Shown): string[] {
  const own = schema['x-kubernetes-validations']?.map(({ message }) => message) ?? [];
  return [...own, ...Object.values(schema.properties ?? {}).flatMap(rulesOf)];
}
