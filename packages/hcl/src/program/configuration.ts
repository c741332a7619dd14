import { posix } from 'node:path';
import type { Body, Diagnostic, Expr, ParsedFile } from '../ast.ts';
import { newRoom, type Room } from '../expressions.ts';
import type { Files } from '../functions/types.ts';
import { jsonExpression } from '../json.ts';
import { isOverride, sourceNames } from '../module.ts';
import { MAX_SOURCE_BYTES, parseHcl } from '../parser.ts';

/** A block of a module, with the arguments of override files merged in. */
export interface ConfigBlock {
  type: string;
  labels: string[];
  body: Body;
  file: string;
  line: number;
  /** The override files of arguments that are not written in `file`. */
  overrides?: ReadonlyMap<string, string>;
}

type ByLabel = Map<string, ConfigBlock>;

/** The blocks of the `.tf` and `.tf.json` files in one folder. */
export interface Configuration {
  variables: ByLabel;
  locals: Map<string, Expr>;
  outputs: ByLabel;
  /** By type, then by label. */
  data: Map<string, ByLabel>;
  resources: Map<string, ByLabel>;
  modules: ByLabel;
  /** Blocks of other types, such as `provider`. */
  others: ConfigBlock[];
  diagnostics: Diagnostic[];
}

/** The blocks inside blocks of JSON files. In JSON, they look like arguments, so a schema has to name them. */
const INNER_BLOCKS = new Set(['option', 'validation', 'prebuilds', 'expiration_policy', 'scheduling', 'schedule']);

/** The blocks that expressions can refer to by name. */
const NAMED = new Set(['variable', 'output', 'module', 'data', 'resource']);

export const isJson = (file: string): boolean => file.endsWith('.json');

/** The resources and data sources of a module. */
export const blocksOf = ({ resources, data }: Configuration): ConfigBlock[] =>
  [...resources.values(), ...data.values()].flatMap((labels) => [...labels.values()]);

/** As its module writes it: `data.coder_parameter.x`, `terraform_data.y`. */
export const addressOf = ({ type, labels }: ConfigBlock): string =>
  [...(type === 'data' ? ['data'] : []), ...labels].join('.');

export const emptyConfiguration = (): Configuration => ({
  variables: new Map(),
  locals: new Map(),
  outputs: new Map(),
  data: new Map(),
  resources: new Map(),
  modules: new Map(),
  others: [],
  diagnostics: [],
});

class Reader {
  readonly found = emptyConfiguration();
  readonly #room: Room;

  constructor(room: Room) {
    this.#room = room;
  }

  native(file: ParsedFile): void {
    this.found.diagnostics.push(...file.diagnostics);
    for (const { type, labels, body, range } of file.body.blocks)
      this.#add({ type, labels, body, file: file.filename, line: range.line });
  }

  json(file: string, source: string): void {
    let data: unknown;
    try {
      data = JSON.parse(source);
    } catch (err) {
      this.found.diagnostics.push({ severity: 'error', file, line: 1, message: (err as Error).message });
      return;
    }
    for (const [type, labeled] of Object.entries(record(data))) {
      const depth = type === 'data' || type === 'resource' ? 2 : type === 'locals' ? 0 : 1;
      for (const [labels, body] of labelled(labeled, depth))
        this.#add({ type, labels, body: this.#body(body, file), file, line: 1 });
    }
  }

  #body(of: Record<string, unknown>, file: string): Body {
    const body: Body = { attributes: new Map(), blocks: [] };
    const range = { start: 0, end: 0, line: 1 };
    for (const [name, value] of Object.entries(of)) {
      if (name === '//') continue;
      if (INNER_BLOCKS.has(name) || name === 'dynamic')
        for (const [labels, inner] of labelled(value, name === 'dynamic' ? 1 : 0))
          body.blocks.push({ type: name, labels, body: this.#body(inner, file), range });
      else if (name === 'content')
        body.blocks.push({ type: name, labels: [], body: this.#body(record(value), file), range });
      else
        body.attributes.set(name, {
          name,
          value: jsonExpression(value, file, this.found.diagnostics, this.#room),
          range,
        });
    }
    return body;
  }

  #add(block: ConfigBlock): void {
    const { found } = this;
    const [first, second] = block.labels;
    if (block.type === 'locals')
      for (const { name, value } of block.body.attributes.values()) found.locals.set(name, value);
    else if (!NAMED.has(block.type)) found.others.push(block);
    else if (first === undefined) return;
    else if (block.type === 'variable') this.#put(found.variables, first, block);
    else if (block.type === 'output') this.#put(found.outputs, first, block);
    else if (block.type === 'module') this.#put(found.modules, first, block);
    else if ((block.type === 'data' || block.type === 'resource') && second !== undefined) {
      const types = block.type === 'data' ? found.data : found.resources;
      const labels = types.get(first) ?? new Map<string, ConfigBlock>();
      types.set(first, labels);
      this.#put(labels, second, block);
    }
  }

  #put(into: ByLabel, label: string, block: ConfigBlock): void {
    const base = into.get(label);
    if (base && !isOverride(posix.basename(block.file))) {
      const what = [block.type, ...block.labels.map((name) => JSON.stringify(name))].join(' ');
      const message = `${what} is already declared in ${base.file}:${base.line}.`;
      this.found.diagnostics.push({ severity: 'error', file: block.file, line: block.line, message });
    } else into.set(label, base ? overridden(base, block) : block);
  }
}

/** Merges a block of an override file: its arguments and kinds of inner blocks replace those of the base. */
function overridden(base: ConfigBlock, by: ConfigBlock): ConfigBlock {
  const kinds = new Set(by.body.blocks.map(({ type, labels }) => (type === 'dynamic' ? labels[0] : type)));
  const kept = base.body.blocks.filter(({ type, labels }) => !kinds.has(type === 'dynamic' ? labels[0]! : type));
  return {
    ...base,
    body: {
      attributes: new Map([...base.body.attributes, ...by.body.attributes]),
      blocks: [...kept, ...by.body.blocks],
    },
    overrides: new Map([
      ...(base.overrides ?? []),
      ...by.body.attributes.keys().map((name) => [name, by.file] as const),
    ]),
  };
}

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** Returns the bodies below this many levels of labels. */
function labelled(value: unknown, depth: number): [labels: string[], body: Record<string, unknown>][] {
  if (Array.isArray(value)) return value.flatMap((item) => labelled(item, depth));
  if (depth === 0) return [[[], record(value)]];
  return Object.entries(record(value)).flatMap(([label, inner]) =>
    labelled(inner, depth - 1).map(([labels, body]): [string[], Record<string, unknown>] => [[label, ...labels], body]),
  );
}

const decode = (data: Uint8Array) => new TextDecoder().decode(data);

/** The files of a template and what is parsed of them. Shared by all evaluations of a template version. */
export class Template {
  readonly files: Files;
  readonly #room = newRoom();
  readonly #folders = new Map<string, Configuration | undefined>();
  readonly #native = new Map<string, ParsedFile>();
  /** The folders of fetched modules, by the names of the module calls: `base.inner`. */
  readonly #manifest: ReadonlyMap<string, string>;

  constructor(files: Files) {
    this.files = files;
    const manifest = files.read('.terraform/modules/modules.json');
    this.#manifest = fetchedFolders(manifest && decode(manifest));
  }

  /** The configuration in a folder. Undefined if the folder has no `.tf` files. */
  folder(dir: string): Configuration | undefined {
    if (!this.#folders.has(dir)) this.#folders.set(dir, this.#read(dir));
    return this.#folders.get(dir);
  }

  /**
   * The module that a call loads. Undefined if its files are not there. `dir` and `calls` are the folder of the caller
   * and the names of the calls that lead to it.
   */
  called(
    dir: string,
    calls: readonly string[],
    { labels, body }: ConfigBlock,
  ): { configuration: Configuration; dir: string } | undefined {
    const source = body.attributes.get('source')?.value;
    const text = source?.kind === 'literal' && typeof source.value === 'string' ? source.value : undefined;
    const local = text !== undefined && /^\.\.?(\/|$)/.test(text);
    const folder = local
      ? posix.join(dir, text).replace(/\/$/, '')
      : this.#manifest.get([...calls, labels[0]!].join('.'));
    const configuration = folder === undefined ? undefined : this.folder(folder);
    return configuration && folder !== undefined ? { configuration, dir: folder } : undefined;
  }

  /** A file of native syntax that is not part of a module, such as `terraform.tfvars`. */
  native(path: string): ParsedFile {
    const known = this.#native.get(path);
    if (known) return known;
    const file = parseHcl(this.text(path) ?? '', path, this.#room);
    this.#native.set(path, file);
    return file;
  }

  text(path: string): string | undefined {
    const data = this.files.read(path);
    return data && decode(data);
  }

  #read(dir: string): Configuration | undefined {
    const prefix = dir === '.' ? '' : `${dir}/`;
    const inside = [...this.files.paths()]
      .filter((path) => path.startsWith(prefix))
      .map((path) => path.slice(prefix.length));
    const names = sourceNames(inside);
    if (names.length === 0) return undefined;
    const reader = new Reader(this.#room);
    for (const name of names) {
      const path = `${prefix}${name}`;
      const source = this.text(path)!;
      if (!isJson(name)) reader.native(parseHcl(source, path, this.#room));
      else if (source.length <= MAX_SOURCE_BYTES) reader.json(path, source);
    }
    return reader.found;
  }
}

/** The folders of fetched modules, by the names of the module calls, from the text of Terraform's `modules.json`. */
export function fetchedFolders(text: string | undefined): Map<string, string> {
  if (text === undefined) return new Map();
  let manifest: unknown;
  try {
    manifest = JSON.parse(text);
  } catch {
    return new Map();
  }
  const modules = record(manifest)['Modules'];
  const entries = (Array.isArray(modules) ? modules : []).map((entry): [unknown, unknown] => [
    record(entry)['Key'],
    record(entry)['Dir'],
  ]);
  return new Map(entries.filter((entry): entry is [string, string] => entry.every((part) => typeof part === 'string')));
}
