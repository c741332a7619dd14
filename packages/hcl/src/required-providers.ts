import type { Expr } from './ast.ts';
import { evaluate } from './evaluate.ts';
import { field, listOf, record, sourceNames } from './module.ts';
import { parseHcl } from './parser.ts';
import { EvaluationError } from './values.ts';

/** A version constraint of a module for one provider. */
export interface ProviderConstraint {
  /** The provider's name in the module. */
  name: string;
  /** Its source address. Absent if the module does not give one. */
  source?: string | undefined;
  version: string;
}

/** Larger files are not read, so that this takes milliseconds. */
export const MAX_PROVIDERS_BYTES = 256 << 10;

type Entry = { name: string } & Partial<ProviderConstraint>;

/**
 * The version constraints of the `required_providers` and `provider` blocks of one module. `files`: those of its
 * folder, by name. Leaves out what cannot be read: Terraform reports it when it loads the module.
 */
export function requiredProviders(files: Readonly<Record<string, string>>): ProviderConstraint[] {
  // an override file replaces the entries of other files
  const required = new Map<string, Entry>();
  const blocks: Entry[] = [];
  for (const file of sourceNames(Object.keys(files))) {
    const text = files[file]!;
    if (text.length > MAX_PROVIDERS_BYTES || !/required_providers|version/.test(text)) continue;
    const found = file.endsWith('.json') ? ofJson(text) : ofNative(text, file);
    for (const entry of found.required) required.set(entry.name, entry);
    blocks.push(...found.blocks);
  }
  const entries = blocks.map((block) => ({ ...block, source: required.get(block.name)?.source }));
  return [...required.values(), ...entries].flatMap(({ version, ...entry }) =>
    version === undefined ? [] : [{ ...entry, version }],
  );
}

function ofNative(text: string, file: string): { required: Entry[]; blocks: Entry[] } {
  const { blocks } = parseHcl(text, file).body;
  const required = blocks
    .filter(({ type }) => type === 'terraform')
    .flatMap(({ body }) => body.blocks.filter(({ type }) => type === 'required_providers'))
    .flatMap(({ body }) => [...body.attributes.values()])
    .map(({ name, value }): Entry => {
      if (value.kind !== 'object') return { name, version: constant(value) };
      const items = new Map(value.items.map(({ key, value }) => [nameOf(key), value]));
      return { name, source: constant(items.get('source')), version: constant(items.get('version')) };
    });
  const configured = blocks
    .filter(({ type, labels }) => type === 'provider' && labels.length === 1)
    .map(({ labels, body }): Entry => ({ name: labels[0]!, version: constant(body.attributes.get('version')?.value) }));
  return { required, blocks: configured };
}

/** The name of an object's item. */
const nameOf = (key: Expr): string | undefined => (key.kind === 'variable' ? key.name : constant(key));

/** The text of an expression without references. */
function constant(value: Expr | undefined): string | undefined {
  if (!value) return undefined;
  try {
    const result = evaluate(value, { variables: {}, functions: false });
    return typeof result === 'string' ? result : undefined;
  } catch (err) {
    if (!(err instanceof EvaluationError)) throw err;
    return undefined;
  }
}

function ofJson(text: string): { required: Entry[]; blocks: Entry[] } {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return { required: [], blocks: [] };
  }
  const string = (value: unknown) => (typeof value === 'string' ? value : undefined);
  const entries = (from: unknown, read: (name: string, value: unknown) => Entry) =>
    listOf(from).flatMap((block) =>
      Object.entries(record(block)).flatMap(([name, values]) => listOf(values).map((value) => read(name, value))),
    );
  const required = listOf(field(data, 'terraform')).flatMap((block) =>
    entries(field(block, 'required_providers'), (name, value) => ({
      name,
      source: string(field(value, 'source')),
      version: string(value) ?? string(field(value, 'version')),
    })),
  );
  const blocks = entries(field(data, 'provider'), (name, value) => ({
    name,
    version: string(field(value, 'version')),
  }));
  return { required, blocks };
}
