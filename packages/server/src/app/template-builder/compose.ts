import { type Block, evaluate, loadModule, type ParsedFile } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import type { CatalogItems } from '../template-catalog/folder.ts';
import type { Base, ItemFiles, ItemVariable, Module } from '../template-catalog/items.ts';
import { literalOf, type Value, valuesOf } from './literal.ts';

// Composes a template. The base's files stay as they are, except that a value of one of its variables becomes the
// variable's default. Each module is a folder below modules/, which modules.tf calls with the agent's id and the values
// as arguments. So names in modules never collide with those of the base. Sensitive values are not part of the source.

export interface Choice {
  base: string;
  baseValues: Readonly<Record<string, string>>;
  modules: readonly { id: string; values: Readonly<Record<string, string>> }[];
}

export interface Composed {
  /** By path, sorted. */
  files: ItemFiles;
  /** The values of sensitive variables, which the template's version stores instead of its source. */
  sensitive: { name: string; value: string }[];
}

const failed = (detail: string) => new AppError('invalid', 'Failed to compose template.', { detail });

/** The base and the modules of a choice. Throws an AppError for unknown ids and for modules that do not go together. */
function chosen(items: CatalogItems, { base: baseId, modules }: Choice): { base: Base; selected: Module[] } {
  const base = items.bases.get(baseId);
  if (!base) throw failed(`Unknown base ${JSON.stringify(baseId)}.`);
  const selected: Module[] = [];
  for (const { id } of modules) {
    const module = items.modules.get(id);
    if (!module) throw failed(`Unknown module ${JSON.stringify(id)}.`);
    if (selected.includes(module)) throw failed(`The module "${id}" is chosen twice.`);
    if (module.compatibleOs.length > 0 && !module.compatibleOs.includes(base.os))
      throw failed(`The module "${id}" does not work on ${base.os}, the operating system of the base "${base.id}".`);
    selected.push(module);
  }
  const ids = new Set(selected.map(({ id }) => id));
  for (const { id, conflictsWith } of selected) {
    const other = conflictsWith.find((each) => each !== id && ids.has(each));
    if (other !== undefined) throw failed(`The modules "${id}" and "${other}" exclude each other.`);
  }
  const slugs = new Map<string, string>();
  for (const { id, slugs: own } of [base, ...selected]) {
    for (const slug of own) {
      const other = slugs.get(slug);
      if (other !== undefined) throw failed(`"${other}" and "${id}" both have an app with the slug "${slug}".`);
      slugs.set(slug, id);
    }
  }
  return { base, selected };
}

const variableBlock = ({ body }: ParsedFile, name: string): Block | undefined =>
  body.blocks.find(({ type, labels }) => type === 'variable' && labels[0] === name);

/** Replaces the text between two offsets of a file. */
interface Edit {
  start: number;
  end: number;
  text: string;
}

/** The edit that makes a literal the default of a variable. */
function defaultEdit({ source }: ParsedFile, block: Block, literal: string): Edit {
  const present = block.body.attributes.get('default');
  if (present) {
    const { start, end } = present.value.range;
    // a heredoc ends with its line
    return { start, end, text: source[end - 1] === '\n' ? `${literal}\n` : literal };
  }
  const start = source.indexOf('{', block.range.start) + 1;
  const end = source.lastIndexOf('}', block.range.end - 1);
  const inner = source.slice(start, end);
  // a block on one line may have only one argument
  const before = inner.includes('\n') ? inner.trimEnd() : inner.trim() === '' ? '' : `\n  ${inner.trim()}`;
  // aligned with the line before, as `terraform fmt` does
  const width = /\n {2}(\w+ *) = .*$/.exec(before)?.[1]?.length ?? 0;
  return { start, end, text: `${before}\n  ${'default'.padEnd(width)} = ${literal}\n` };
}

/** The base's files with these values as defaults of its variables. */
function withDefaults(base: Base, values: ReadonlyMap<ItemVariable, Value>): Map<string, Uint8Array> {
  const files = new Map(base.files);
  for (const file of base.parsed) {
    const edits: Edit[] = [];
    for (const [{ name, sensitive }, { literal }] of values) {
      const block = sensitive ? undefined : variableBlock(file, name);
      if (block) edits.push(defaultEdit(file, block, literal));
    }
    if (edits.length === 0) continue;
    const edited = edits
      .sort((a, b) => b.start - a.start)
      .reduce((text, { start, end, text: by }) => text.slice(0, start) + by + text.slice(end), file.source);
    files.set(file.filename, Buffer.from(edited));
  }
  return files;
}

interface Call {
  source: string;
  /** The names of the root module's variables that carry sensitive values, by the variable's name in the module. */
  carried: Map<string, string>;
}

/** The blocks that call a module. Its sensitive variables become variables of the root module. */
function moduleCall(module: Module, agent: string, values: ReadonlyMap<ItemVariable, Value>): Call {
  const carried = new Map<string, string>();
  const args: [string, string][] = [
    ['source', `"./modules/${module.id}"`],
    ['agent_id', `coder_agent.${agent}.id`],
  ];
  for (const [{ name, sensitive }, { literal }] of values) if (!sensitive) args.push([name, literal]);
  let variables = '';
  for (const { name, sensitive, required, type, default: otherwise } of module.variables) {
    if (!sensitive) continue;
    const carrier = `${module.id.replaceAll('-', '_')}_${name}`;
    carried.set(name, carrier);
    args.push([name, `var.${carrier}`]);
    const ending = required ? '' : `  default   = ${otherwise === undefined ? 'null' : literalOf(otherwise)}\n`;
    variables += `variable "${carrier}" {\n  type      = ${type}\n  sensitive = true\n${ending}}\n\n`;
  }
  const width = Math.max(...args.map(([name]) => name.length));
  const lines = args.map(([name, value]) => `  ${name.padEnd(width)} = ${value}\n`).join('');
  return { source: `${variables}module "${module.id}" {\n${lines}}\n`, carried };
}

/** Terraform normalizes texts. */
const normal = (value: unknown): unknown => (typeof value === 'string' ? value.normalize() : value);

/**
 * Parses the result again: the root module has no problem, and every variable of the base has exactly the value that was
 * given, so no value has become anything else than a text, a number or a bool.
 */
function verify(files: ItemFiles, base: Base, values: ReadonlyMap<ItemVariable, Value>): void {
  const blocksOf = (parsed: readonly ParsedFile[]) =>
    parsed.flatMap((file) => file.body.blocks.map((block) => ({ file: file.filename, block })));
  const { diagnostics, files: parsed } = loadModule(Object.fromEntries(files));
  const blocks = blocksOf(parsed);
  const [first] = diagnostics;
  if (first) throw failed(`${first.file}:${first.line}: ${first.message}`);
  const heads = (of: typeof blocks) =>
    of.filter(({ file }) => file !== 'modules.tf').map(({ block }) => [block.type, ...block.labels].join(' '));
  const kept = heads(blocks);
  const before = heads(blocksOf(base.parsed));
  if (kept.join('\n') !== before.join('\n')) throw failed(`The base "${base.id}" cannot hold these values.`);
  const taken = blocks.filter(({ block }) => block.type === 'module').map(({ block }) => block.labels[0] ?? '');
  const twice = taken.find((name, index) => taken.indexOf(name) !== index);
  if (twice !== undefined) throw failed(`The base "${base.id}" has a module "${twice}" already.`);
  for (const [{ name, sensitive }, { value }] of values) {
    if (sensitive) continue;
    const block = blocks.find(({ block }) => block.type === 'variable' && block.labels[0] === name)?.block;
    const expr = block?.body.attributes.get('default')?.value;
    if (!expr || normal(evaluate(expr)) !== normal(value))
      throw failed(`The variable "${name}" cannot have this value.`);
  }
}

/**
 * Composes the files of a template. The same choice from the same items always gives the same files. Throws an AppError
 * (`invalid`), whose detail says what is wrong, before anything is stored.
 */
export function compose(items: CatalogItems, choice: Choice): Composed {
  const { base, selected } = chosen(items, choice);
  const baseValues = valuesOf(base.variables, choice.baseValues, `Base "${base.id}"`);
  const files = withDefaults(base, baseValues);
  const sensitive = [...baseValues].flatMap(([variable, { value }]) =>
    variable.sensitive ? [{ name: variable.name, value: String(value) }] : [],
  );
  const calls: string[] = [];
  for (const [index, module] of selected.entries()) {
    const values = valuesOf(module.variables, choice.modules[index]!.values, `Module "${module.id}"`);
    const { source, carried } = moduleCall(module, base.agent, values);
    calls.push(source);
    for (const [{ name }, { value }] of values) {
      const carrier = carried.get(name);
      if (carrier !== undefined) sensitive.push({ name: carrier, value: String(value) });
    }
    for (const [path, data] of module.files) {
      if (path !== 'README.md') files.set(`modules/${module.id}/${path}`, data);
    }
  }
  if (calls.length > 0) files.set('modules.tf', Buffer.from(calls.join('\n')));
  verify(files, base, baseValues);
  return { files: new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1))), sensitive };
}
