import { type Attribute, type Block, type Diagnostic, type Expr, type ParsedFile, rawText } from './ast.ts';
import { evaluate } from './evaluate.ts';
import { parseHcl } from './parser.ts';
import { EvaluationError, fromJson, jsonText, type Value } from './values.ts';

export interface ModuleVariable {
  name: string;
  /** The type constraint as it was written; empty when there is none. */
  type: string;
  description: string;
  /** A string as it is, anything else as JSON; empty when there is none or it is null. */
  default: string;
  required: boolean;
  sensitive: boolean;
}

export interface LoadedModule {
  /** By file, then by line. */
  variables: ModuleVariable[];
  /** Tag name → the value's source text, from `data "coder_workspace_tags"`. */
  workspaceTags: Record<string, string>;
  diagnostics: Diagnostic[];
  readme?: string;
  /** The native files, parsed; overrides last. */
  files: ParsedFile[];
}

const MAX_JSON_BYTES = 4 * 1024 * 1024;
const isOverride = (name: string) => /(^|_)override\.tf(\.json)?$/.test(name);
const ignored = (name: string) => name.startsWith('.') || name.endsWith('~') || /^#.*#$/.test(name);

class Loader {
  readonly variables = new Map<string, ModuleVariable>();
  readonly tags = new Map<string, string>();
  readonly diagnostics: Diagnostic[] = [];

  error(file: string, line: number, message: string): void {
    this.diagnostics.push({ severity: 'error', file, line, message });
  }

  declare(file: string, line: number, name: string, given: Partial<ModuleVariable>): void {
    const known = this.variables.get(name);
    if (known && !isOverride(file)) {
      this.error(file, line, `Variable ${JSON.stringify(name)} is declared twice.`);
      return;
    }
    const base = known ?? { name, type: '', description: '', default: '', required: true, sensitive: false };
    this.variables.set(name, { ...base, ...given });
  }

  native(file: ParsedFile): void {
    this.diagnostics.push(...file.diagnostics);
    for (const block of file.body.blocks) {
      if (block.type === 'variable') this.#variable(file, block);
      else if (block.type === 'data' && block.labels[0] === 'coder_workspace_tags') this.#workspaceTags(file, block);
    }
  }

  #variable(file: ParsedFile, block: Block): void {
    const { filename } = file;
    const [name, ...more] = block.labels;
    if (name === undefined || more.length > 0) {
      this.error(filename, block.range.line, 'A variable block has one label, its name.');
      return;
    }
    const constant = (attribute: Attribute | undefined): Value | undefined => {
      if (!attribute) return undefined;
      try {
        return evaluate(attribute.value);
      } catch (err) {
        if (!(err instanceof EvaluationError)) throw err;
        const text = `${attribute.name} of variable ${JSON.stringify(name)} must be a constant. ${err.message}`;
        this.error(filename, attribute.range.line, text);
        return undefined;
      }
    };
    const get = (key: string) => block.body.attributes.get(key);
    const given: Partial<ModuleVariable> = {};
    const type = get('type');
    // A quoted type is the way of old: "string" means string.
    if (type) given.type = type.value.kind === 'literal' ? String(type.value.value) : rawText(file, type.value);
    const description = constant(get('description'));
    if (typeof description === 'string') given.description = description;
    const sensitive = constant(get('sensitive'));
    if (sensitive !== undefined) given.sensitive = sensitive === true;
    if (get('default')) Object.assign(given, defaultOf(constant(get('default')) ?? null));
    this.declare(filename, block.range.line, name, given);
  }

  #workspaceTags(file: ParsedFile, block: Block): void {
    const tags = block.body.attributes.get('tags');
    if (!tags) return;
    let literal: Expr = tags.value;
    while (literal.kind === 'parens') literal = literal.inner;
    if (literal.kind !== 'object') {
      this.error(file.filename, tags.range.line, 'tags must be written as an object: { name = value }.');
      return;
    }
    for (const { key, value } of literal.items) {
      const name = rawText(file, key).replace(/^"(.*)"$/s, '$1');
      if (this.tags.has(name)) this.error(file.filename, key.range.line, `Tag ${JSON.stringify(name)} is set twice.`);
      else this.tags.set(name, rawText(file, value));
    }
  }

  json(filename: string, source: string): void {
    let data: unknown;
    try {
      if (source.length > MAX_JSON_BYTES) throw new Error('The file is too large.');
      data = JSON.parse(source);
    } catch (err) {
      const message = (err as Error).message;
      this.error(filename, Number(/\(line (\d+)/.exec(message)?.[1] ?? badTokenLine(source)), message);
      return;
    }
    for (const blocks of listOf(field(data, 'variable')))
      for (const [name, bodies] of Object.entries(record(blocks)))
        for (const body of listOf(bodies)) this.#jsonVariable(filename, source, name, record(body));
  }

  #jsonVariable(filename: string, source: string, name: string, body: Record<string, unknown>): void {
    const at = source.indexOf(JSON.stringify(name));
    const line = at < 0 ? 1 : source.slice(0, at).split('\n').length;
    const given: Partial<ModuleVariable> = {};
    if (typeof body['type'] === 'string') given.type = body['type'];
    if (typeof body['description'] === 'string') given.description = body['description'];
    if (typeof body['sensitive'] === 'boolean') given.sensitive = body['sensitive'];
    try {
      if (Object.hasOwn(body, 'default')) Object.assign(given, defaultOf(fromJson(body['default'])));
    } catch (err) {
      if (!(err instanceof EvaluationError)) throw err;
      this.error(filename, line, `default of variable ${JSON.stringify(name)}: ${err.message}`);
    }
    this.declare(filename, line, name, given);
  }
}

/** The line of the first text that is no JSON token; the parser's own message names a place only sometimes. */
function badTokenLine(source: string): number {
  const token = /\s*(?:[{}[\],:]|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)/y;
  let end = 0;
  while (token.test(source)) end = token.lastIndex;
  return source.slice(0, end).split('\n').length;
}

function defaultOf(value: Value): Pick<ModuleVariable, 'default' | 'required'> {
  if (value === null) return { default: '', required: false };
  return { default: typeof value === 'string' ? value : jsonText(value), required: false };
}

const listOf = (value: unknown): unknown[] => (value === undefined ? [] : Array.isArray(value) ? value : [value]);
const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
const field = (value: unknown, name: string): unknown => {
  const from = record(value);
  return Object.hasOwn(from, name) ? from[name] : undefined;
};

/**
 * Reads the root module of a template: `files` by path from its top. Files of other directories are other modules'.
 * Never throws on what a file holds: `diagnostics` tells, with file and line.
 */
export function loadModule(files: Readonly<Record<string, string | Uint8Array>>): LoadedModule {
  const loader = new Loader();
  const parsed: ParsedFile[] = [];
  const text = (content: string | Uint8Array) =>
    typeof content === 'string' ? content : new TextDecoder().decode(content);
  const names = Object.keys(files)
    .map((path) => ({ path, name: path.replace(/^\.\//, '') }))
    .filter(({ name }) => !name.includes('/') && !ignored(name) && /\.tf(\.json)?$/.test(name))
    .sort((a, b) => Number(isOverride(a.name)) - Number(isOverride(b.name)) || (a.name < b.name ? -1 : 1));
  for (const { path, name } of names) {
    const source = text(files[path]!);
    if (name.endsWith('.json')) loader.json(name, source);
    else {
      const file = parseHcl(source, name);
      parsed.push(file);
      loader.native(file);
    }
  }
  const readme = files['README.md'] ?? files['./README.md'];
  return {
    variables: [...loader.variables.values()],
    workspaceTags: Object.fromEntries(loader.tags),
    diagnostics: loader.diagnostics,
    ...(readme === undefined ? {} : { readme: text(readme) }),
    files: parsed,
  };
}
