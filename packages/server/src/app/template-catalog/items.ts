import { type Block, evaluate, loadModule, type ModuleVariable, type ParsedFile } from '@ropewalk/hcl';
import { errorText } from '@ropewalk/kit';
import { parse } from 'yaml';

// A base is a template without modules: its Terraform files and a README.md. A module is a Terraform module that adds
// something to the agent of a base. Both are folders, and the front matter of their README.md describes them.

/** The files of a folder, by path from it with forward slashes. */
export type ItemFiles = ReadonlyMap<string, Uint8Array>;

export type VariableType = 'string' | 'number' | 'bool';

/** A variable that a person may set. */
export interface ItemVariable {
  name: string;
  type: VariableType;
  description: string;
  /** Absent if there is none, or null. */
  default?: string | number | boolean;
  required: boolean;
  sensitive: boolean;
}

interface Item {
  id: string;
  name: string;
  description: string;
  icon: string;
  variables: ItemVariable[];
  files: ItemFiles;
  /** Its Terraform files. */
  parsed: readonly ParsedFile[];
  /** The slugs of its apps, as far as its text shows them. */
  slugs: string[];
}

export interface Base extends Item {
  /** The operating system of its agent. */
  os: string;
  /** The name of its `coder_agent` resource. */
  agent: string;
  /** Its README.md without front matter and title, as markdown. */
  prerequisites: string;
}

export interface Module extends Item {
  category: string;
  version: string;
  /** Empty: all. */
  compatibleOs: string[];
  conflictsWith: string[];
}

/** A problem of a folder, which names the file. */
export class ItemError extends Error {}

export const SYSTEMS: readonly string[] = ['linux', 'windows', 'macos'];
const ID = /^[a-z](-?[a-z0-9])*$/;
const MAX_ID = 64;
/** The server parses this on its main thread, which takes about 0.1 s. The largest starter template has 10 KiB. */
const MAX_SOURCE_BYTES = 64 * 1024;
/** The variable that the builder sets itself: the id of the base's agent. */
const AGENT_ID = 'agent_id';
/** Paths of a composed template that the builder writes. */
const RESERVED = /^(modules\.tf$|modules\/)/;

interface Front {
  [key: string]: unknown;
}

function frontMatter(place: string, files: ItemFiles): { front: Front; text: string } {
  const data = files.get('README.md');
  if (!data) throw new ItemError(`${place}/README.md is missing. Its front matter describes the folder.`);
  const readme = Buffer.from(data).toString().replaceAll('\r\n', '\n');
  const [, head = '', text = readme] = /^---\n(.*?)\n---\n(.*)$/s.exec(readme) ?? [];
  try {
    const front: unknown = parse(head) ?? {};
    if (typeof front !== 'object' || Array.isArray(front)) throw new Error('it is not a list of keys and values');
    return { front: front as Front, text };
  } catch (err) {
    throw new ItemError(`${place}/README.md: invalid front matter: ${errorText(err)}`);
  }
}

function textOf(place: string, front: Front, key: string, otherwise = ''): string {
  const value = Object.hasOwn(front, key) ? front[key] : undefined;
  if (value === undefined || value === null) return otherwise;
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw new ItemError(`${place}/README.md: "${key}" must be a text.`);
}

function listOf(place: string, front: Front, key: string): string[] {
  const value = Object.hasOwn(front, key) ? (front[key] ?? []) : [];
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value;
  throw new ItemError(`${place}/README.md: "${key}" must be a list of texts.`);
}

function checkFiles(place: string, files: ItemFiles): void {
  const sourceBytes = [...files].reduce((sum, [path, { length }]) => sum + (path.endsWith('.tf') ? length : 0), 0);
  if (sourceBytes > MAX_SOURCE_BYTES)
    throw new ItemError(`${place}: its .tf files together are larger than ${MAX_SOURCE_BYTES / 1024} KiB.`);
  for (const path of files.keys()) {
    const why = path.endsWith('.tf.json')
      ? 'Write it in the native syntax, as a .tf file.'
      : /(^|_)override\.tf$/.test(path)
        ? 'Override files are not supported.'
        : /\.tfvars$|\.tfvars\.json$/.test(path)
          ? 'Files of variable values are not supported. Set defaults instead.'
          : undefined;
    if (why !== undefined) throw new ItemError(`${place}/${path}: ${why}`);
  }
}

interface Read {
  parsed: ParsedFile[];
  blocks: { block: Block; file: string; source: string }[];
  variables: ModuleVariable[];
}

/** Parses the Terraform files of a root module. Throws an ItemError with file and line on the first problem. */
function readTerraform(place: string, files: ItemFiles): Read {
  const { files: parsed, variables, diagnostics } = loadModule(Object.fromEntries(files));
  const [first] = diagnostics;
  if (first) throw new ItemError(`${place}/${first.file}:${first.line}: ${first.message}`);
  if (parsed.length === 0) throw new ItemError(`${place} has no .tf file.`);
  return {
    parsed,
    variables,
    blocks: parsed.flatMap(({ body, filename, source }) =>
      body.blocks.map((block) => ({ block, file: filename, source })),
    ),
  };
}

function toVariables(place: string, { variables, blocks }: Read): ItemVariable[] {
  return variables.flatMap((variable): ItemVariable[] => {
    const { name, description, required, sensitive } = variable;
    if (name === AGENT_ID) return [];
    const type = variable.type === '' ? 'string' : variable.type;
    if (type !== 'string' && type !== 'number' && type !== 'bool') {
      if (!required) return [];
      const file = blocks.find(({ block }) => block.type === 'variable' && block.labels[0] === name)?.file;
      throw new ItemError(
        `${place}/${file}: the variable "${name}" has the type ${type}. Give it a default, or use string, number or bool.`,
      );
    }
    const value =
      type === 'string' ? variable.default : variable.default === '' ? undefined : JSON.parse(variable.default);
    const given = !required && value !== undefined ? { default: value } : {};
    return [{ name, type, description, required, sensitive, ...given }];
  });
}

/** The value of an attribute that is written as a text without expressions. */
function literal({ body }: Block, name: string): string | undefined {
  const expr = body.attributes.get(name)?.value;
  if (!expr) return undefined;
  try {
    const value = evaluate(expr);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

const resourcesOf = ({ blocks }: Read, type: string) =>
  blocks.filter(({ block }) => block.type === 'resource' && block.labels[0] === type);

const slugsOf = (read: Read): string[] =>
  resourcesOf(read, 'coder_app').flatMap(({ block }) => literal(block, 'slug') ?? []);

interface Common extends Item {
  read: Read;
  front: Front;
  text: string;
}

function common(place: string, id: string, files: ItemFiles): Common {
  if (!ID.test(id) || id.length > MAX_ID) {
    const form = `lower-case letters, digits and single hyphens, a letter first, and up to ${MAX_ID} characters`;
    throw new ItemError(`Invalid folder name "${place}": use ${form}.`);
  }
  const { front, text } = frontMatter(place, files);
  checkFiles(place, files);
  const read = readTerraform(place, files);
  return {
    id,
    name: textOf(place, front, 'display_name', id),
    description: textOf(place, front, 'description'),
    icon: textOf(place, front, 'icon'),
    variables: toVariables(place, read),
    files,
    parsed: read.parsed,
    slugs: slugsOf(read),
    read,
    front,
    text,
  };
}

function checkSystems(place: string, systems: readonly string[]): void {
  const wrong = systems.find((os) => !SYSTEMS.includes(os));
  if (wrong === undefined) return;
  throw new ItemError(`${place}/README.md: unknown operating system "${wrong}": use ${SYSTEMS.join(', ')}.`);
}

/** Reads the folder of a base. `place` names it in problems. Throws an ItemError. */
export function readBase(place: string, id: string, files: ItemFiles): Base {
  const { read, front, text, ...item } = common(place, id, files);
  const reserved = [...files.keys()].find((path) => RESERVED.test(path));
  if (reserved !== undefined) throw new ItemError(`${place}/${reserved}: the builder writes modules.tf and modules/.`);
  const agents = resourcesOf(read, 'coder_agent');
  const [agent] = agents;
  if (!agent || agents.length > 1)
    throw new ItemError(`${place} has ${agents.length} coder_agent resources. A base has one.`);
  for (const many of ['count', 'for_each']) {
    if (!agent.block.body.attributes.has(many)) continue;
    throw new ItemError(`${place}/${agent.file}: the coder_agent resource of a base has no "${many}".`);
  }
  const written = literal(agent.block, 'os');
  const os = textOf(place, front, 'os', written === 'darwin' ? 'macos' : (written ?? 'linux'));
  checkSystems(place, [os]);
  const prerequisites = text.replace(/^\s*# .*\n/, '').trim();
  return { ...item, os, agent: agent.block.labels[1] ?? '', prerequisites };
}

/** Reads the folder of a module. `place` names it in problems. Throws an ItemError. */
export function readModule(place: string, id: string, files: ItemFiles): Module {
  const { read, front, text: _, ...item } = common(place, id, files);
  if (!read.variables.some(({ name }) => name === AGENT_ID))
    throw new ItemError(`${place} has no variable "${AGENT_ID}", which the builder sets to the agent's id.`);
  const provider = read.blocks.find(({ block }) => block.type === 'provider');
  if (provider) throw new ItemError(`${place}/${provider.file}: only a base configures providers.`);
  const compatibleOs = listOf(place, front, 'compatible_os');
  checkSystems(place, compatibleOs);
  return {
    ...item,
    category: textOf(place, front, 'category'),
    version: textOf(place, front, 'version'),
    compatibleOs,
    conflictsWith: listOf(place, front, 'conflicts_with'),
  };
}
