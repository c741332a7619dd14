import { ownValue } from '@ropewalk/kit/own-value';
import { type Attribute, type Block, type Diagnostic, type Expr, type ParsedFile, rawText } from './ast.ts';
import { evaluate } from './evaluate.ts';
import { newRoom } from './expressions.ts';
import { jsonExpression, MAX_DIAGNOSTICS } from './json.ts';
import { parseHcl } from './parser.ts';
import { certainReferences } from './references.ts';
import { EvaluationError, fromJson, jsonText, type Value } from './values.ts';

export interface ModuleVariable {
  name: string;
  /** The source text of the type constraint. Empty without a constraint. */
  type: string;
  description: string;
  /** A string unchanged, anything else as JSON. Empty if it is absent or null. */
  default: string;
  required: boolean;
  sensitive: boolean;
}

export interface LoadedModule {
  /** Ordered by file, then by line. */
  variables: ModuleVariable[];
  /**
   * Tag name → the value's source text, from `data "coder_workspace_tags"` of native files. A name is source text too,
   * without quotes: a name in parentheses or with `${` or `%{` is an expression. `ALL_TAGS` is not a name.
   */
  workspaceTags: Record<string, string>;
  diagnostics: Diagnostic[];
  readme?: string;
  /** The parsed native files, overrides last. */
  files: ParsedFile[];
}

/**
 * The name of the entry in `workspaceTags` that stands for all tags whose names the text does not show
 * (`tags = merge(local.a, local.b)`). Its value is a list of such objects. No expression is written like this.
 */
export const ALL_TAGS = '()';
/** The limit of tags that one template may set. */
export const MAX_WORKSPACE_TAGS = 1000;
/** What tags can depend on: everything that can have a value before Terraform creates a resource. */
const KNOWN_TO_TAGS = /^(var|local|data|module|path|terraform|count|each)\./;
const MAX_JSON_BYTES = 4 * 1024 * 1024;
export const isOverride = (name: string) => /(^|_)override\.tf(\.json)?$/.test(name);
const ignored = (name: string) => name.startsWith('.') || name.endsWith('~') || /^#.*#$/.test(name);

/** Returns the Terraform files among the names in a folder, in the order in which they are read: overrides last. */
export function sourceNames(names: Iterable<string>): string[] {
  return [...names]
    .filter((name) => !name.includes('/') && !ignored(name) && /\.tf(\.json)?$/.test(name))
    .sort((a, b) => Number(isOverride(a)) - Number(isOverride(b)) || (a < b ? -1 : 1));
}

class Loader {
  readonly variables = new Map<string, ModuleVariable>();
  readonly tags = new Map<string, string>();
  /** The names of tags by the label of their `data "coder_workspace_tags"`. */
  readonly tagNames = new Map<string, Set<string>>();
  /** The source texts of tags that are not written as an object. */
  readonly tagObjects: string[] = [];
  /** All expressions of tags. `what` names an expression in messages. */
  readonly tagExpressions: { what: string; expr: Expr; file: string; line: number }[] = [];
  /** By label of `data "coder_workspace_tags"`, the override file whose tags replace all others. */
  readonly tagOverrides = new Map<string, string>();
  readonly locals = new Map<string, Expr>();
  readonly diagnostics: Diagnostic[] = [];
  /** Shared by all files. */
  readonly room = newRoom();

  error(file: string, line: number | (() => number), message: string): void {
    if (this.diagnostics.length >= MAX_DIAGNOSTICS) return;
    this.diagnostics.push({ severity: 'error', file, line: typeof line === 'number' ? line : line(), message });
  }

  declare(file: string, line: number | (() => number), name: string, given: Partial<ModuleVariable>): void {
    const known = this.variables.get(name);
    if (known && !isOverride(file)) {
      this.error(file, line, `Variable ${JSON.stringify(name)} is declared twice.`);
      return;
    }
    const base = known ?? { name, type: '', description: '', default: '', required: true, sensitive: false };
    this.variables.set(name, { ...base, ...given });
  }

  noteOverrides({ filename, body }: ParsedFile): void {
    if (!isOverride(filename)) return;
    for (const { type, labels, body: block } of body.blocks)
      if (type === 'data' && labels[0] === 'coder_workspace_tags' && block.attributes.has('tags'))
        this.tagOverrides.set(labels[1] ?? '', filename);
  }

  native(file: ParsedFile): void {
    this.diagnostics.push(...file.diagnostics);
    for (const block of file.body.blocks) {
      if (block.type === 'variable') this.#variable(file, block);
      else if (block.type === 'locals')
        for (const { name, value } of block.body.attributes.values()) this.locals.set(name, value);
      else if (block.type === 'data' && block.labels[0] === 'coder_workspace_tags') this.#workspaceTags(file, block);
    }
  }

  #variable(file: ParsedFile, block: Block): void {
    const { filename } = file;
    const [name, ...more] = block.labels;
    if (name === undefined || more.length > 0) {
      this.error(filename, block.range.line, 'A variable block has exactly one label, its name.');
      return;
    }
    const constant = (attribute: Attribute | undefined): Value | undefined => {
      if (!attribute) return undefined;
      try {
        return evaluate(attribute.value, { variables: {}, functions: false });
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
    // The legacy form is a quoted type: "string" means string.
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
    const override = this.tagOverrides.get(block.labels[1] ?? '');
    if (override !== undefined && override !== file.filename) return;
    let literal: Expr = tags.value;
    while (literal.kind === 'parens') literal = literal.inner;
    const { filename } = file;
    if (literal.kind !== 'object') {
      this.tagObjects.push(rawText(file, tags.value));
      this.tagExpressions.push({ what: 'tags', expr: literal, file: filename, line: tags.range.line });
      return;
    }
    const label = block.labels[1] ?? '';
    // blocks of two labels may exist in turn, by their count
    const names = this.tagNames.get(label) ?? new Set<string>();
    this.tagNames.set(label, names);
    for (const { key, value } of literal.items) {
      const raw = rawText(file, key);
      const name = raw.replace(/^"(.*)"$/s, '$1');
      const what = `Tag ${JSON.stringify(name)}`;
      const refuse = (why: string) => this.error(filename, key.range.line, `${what} ${why}.`);
      for (const expr of [key, value]) this.tagExpressions.push({ what, expr, file: filename, line: key.range.line });
      const quoted = raw.startsWith('"') && ['literal', 'template', 'wrap'].includes(key.kind);
      // Only the name's text is kept, and it must show what kind of name it is.
      if (!quoted && !/^[\p{ID_Continue}-]+$/u.test(raw) && key.kind !== 'parens')
        refuse('is an expression: write it in parentheses');
      else if (quoted && name.startsWith('(')) refuse('starts with a parenthesis, which tag names cannot');
      else if (this.tags.size === MAX_WORKSPACE_TAGS) refuse(`exceeds the limit of ${MAX_WORKSPACE_TAGS} tags`);
      else if (names.has(name)) refuse('is set twice');
      else this.tags.set(name, rawText(file, value));
      names.add(name);
    }
  }

  /** Reports tags that can never have a value before Terraform runs. Call it after all files. */
  checkTags(): void {
    for (const { what, expr, file, line } of this.tagExpressions) {
      const all = new Set(certainReferences(expr));
      for (const address of all) {
        const local = address.startsWith('local.') ? this.locals.get(address.slice(6)) : undefined;
        // iterating over a set includes the items added meanwhile
        for (const more of local ? certainReferences(local) : []) all.add(more);
      }
      const unknown = [...all].filter((address) => !KNOWN_TO_TAGS.test(address));
      if (unknown.length > 0)
        this.error(
          file,
          line,
          `${what} cannot depend on ${unknown.join(', ')}, which is known only to Terraform. ` +
            'The server needs the tags before Terraform runs: use variables, parameters and locals.',
        );
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
    const expression = (value: unknown): Expr => jsonExpression(value, filename, this.diagnostics, this.room);
    for (const block of listOf(field(data, 'locals')))
      for (const [name, value] of Object.entries(record(block)))
        if (name !== '//') this.locals.set(name, expression(value)); // The name of a comment.
  }

  #jsonVariable(filename: string, source: string, name: string, body: Record<string, unknown>): void {
    // Searched only if it is shown.
    const line = () => {
      const at = source.indexOf(JSON.stringify(name));
      return at < 0 ? 1 : source.slice(0, at).split('\n').length;
    };
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

/**
 * Returns the line of the first text that is not a JSON token. The parser's own message names a position only
 * sometimes.
 */
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

export const listOf = (value: unknown): unknown[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];
export const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
export const field = (value: unknown, name: string): unknown => {
  return ownValue(record(value), name);
};

/**
 * Loads the root module of a template: `files` by path from its root. Files in other directories belong to other
 * modules. Never throws on file contents: `diagnostics` reports problems with file and line.
 */
export function loadModule(files: Readonly<Record<string, string | Uint8Array>>): LoadedModule {
  const loader = new Loader();
  const parsed: ParsedFile[] = [];
  const text = (content: string | Uint8Array) =>
    typeof content === 'string' ? content : new TextDecoder().decode(content);
  const paths = new Map(Object.keys(files).map((path) => [path.replace(/^\.\//, ''), path]));
  const names = sourceNames(paths.keys());
  const sourceOf = (name: string) => text(files[paths.get(name)!]!);
  const native = new Map(
    names
      .filter((name) => !name.endsWith('.json'))
      .map((name) => [name, parseHcl(sourceOf(name), name, loader.room)] as const),
  );
  for (const file of native.values()) loader.noteOverrides(file);
  for (const name of names) {
    const file = native.get(name);
    if (!file) loader.json(name, sourceOf(name));
    else {
      parsed.push(file);
      loader.native(file);
    }
  }
  loader.checkTags();
  if (loader.tagObjects.length > 0)
    // each ends with a line break, because it may end with a heredoc
    loader.tags.set(ALL_TAGS, `[\n${loader.tagObjects.map((text) => `${text}\n,\n`).join('')}]`);
  const readme = files['README.md'] ?? files['./README.md'];
  return {
    variables: [...loader.variables.values()],
    workspaceTags: Object.fromEntries(loader.tags),
    diagnostics: loader.diagnostics,
    ...(readme === undefined ? {} : { readme: text(readme) }),
    files: parsed,
  };
}
