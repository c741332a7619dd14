import { posix } from 'node:path';
import type { Expr } from './ast.ts';
import { field, listOf, record, sourceNames } from './module.ts';
import { parseHcl } from './parser.ts';
import { fetchedFolders } from './program/configuration.ts';

/** Larger files are not read for it, so that this takes milliseconds at most. Terraform itself checks every file. */
const MAX_BYTES = 64 * 1024;
/** The rest of the modules is left out when this much was read. */
const MAX_TOTAL_BYTES = 1024 * 1024;
const MAX_FOLDERS = 500;

interface Found {
  constraints: string[];
  /** By the name of the call. */
  sources: [name: string, source: string][];
}

/** A constraint `required_version` of a module. */
export interface VersionRequirement {
  /** The names of the module calls that lead to it, joined by dots. Empty: the template itself. */
  module: string;
  constraint: string;
}

type Files = Readonly<Record<string, string | Uint8Array>>;

/** The constraints of `versionRequirements`, each once. */
export const requiredVersions = (files: Files): string[] => [
  ...new Set(versionRequirements(files).map(({ constraint }) => constraint)),
];

/**
 * The constraints `required_version` in the `terraform` blocks of a template and of the modules that it calls, once for
 * each folder. `files`: by path from the template's root, those of fetched modules included. Leaves out what cannot be
 * read: Terraform reports it later.
 */
export function versionRequirements(files: Files): VersionRequirement[] {
  const manifest = files[MANIFEST];
  const fetched = fetchedFolders(manifest === undefined ? undefined : decode(manifest));
  const byFolder = Map.groupBy(Object.keys(files), (path) => posix.dirname(path));
  const requirements: VersionRequirement[] = [];
  const seen = new Set(['.']);
  const open: { folder: string; key: string }[] = [{ folder: '.', key: '' }];
  let bytes = 0;
  for (const { folder, key } of open) {
    const names = (byFolder.get(folder) ?? []).map((path) => posix.basename(path));
    for (const name of sourceNames(names)) {
      const path = posix.join(folder, name);
      const content = files[path]!;
      if (content.length > MAX_BYTES || bytes + content.length > MAX_TOTAL_BYTES) continue;
      const text = decode(content);
      if (!/required_version|module/.test(text)) continue;
      bytes += content.length;
      const found = name.endsWith('.json') ? ofJson(text) : ofNative(text, path);
      for (const constraint of found.constraints) requirements.push({ module: key, constraint });
      for (const [call, source] of found.sources) {
        const inner = key === '' ? call : `${key}.${call}`;
        const local = /^\.\.?\//.test(source) ? posix.join(folder, source) : undefined;
        const folderOf = fetched.get(inner) ?? local ?? unlisted(inner, source);
        const next = posix.normalize(folderOf).replace(/\/$/, '');
        if (!byFolder.has(next) || seen.has(next) || seen.size === MAX_FOLDERS) continue;
        seen.add(next);
        // iterating over an array includes the items added meanwhile
        open.push({ folder: next, key: inner });
      }
    }
  }
  return requirements;
}

/** Where Terraform puts a module. From 1.15 on it writes no manifest if a version does not match. */
function unlisted(key: string, source: string): string {
  const [, inside = ''] = /[^:/]\/\/([^?]+)/.exec(source) ?? [];
  return posix.join('.terraform/modules', key, inside);
}

const MANIFEST = '.terraform/modules/modules.json';

const decode = (content: string | Uint8Array) =>
  typeof content === 'string' ? content : new TextDecoder().decode(content);

function ofNative(text: string, name: string): Found {
  const { blocks } = parseHcl(text, name).body;
  const texts = (type: string, attribute: string) =>
    blocks
      .filter((block) => block.type === type)
      .flatMap(({ labels, body }): [string, string][] => {
        const written = textOf(body.attributes.get(attribute)?.value);
        return written === undefined ? [] : [[labels[0] ?? '', written]];
      });
  return {
    constraints: texts('terraform', 'required_version').map(([, constraint]) => constraint),
    sources: texts('module', 'source'),
  };
}

/** A text as written. What it interpolates becomes a question mark. */
function textOf(expr: Expr | undefined): string | undefined {
  if (expr?.kind === 'literal' && typeof expr.value === 'string') return expr.value;
  const parts = expr?.kind === 'template' ? expr.parts : [];
  return parts.length > 0 ? parts.map((part) => (part.kind === 'text' ? part.text : '?')).join('') : undefined;
}

function ofJson(text: string): Found {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return { constraints: [], sources: [] };
  }
  const isText = (value: unknown) => typeof value === 'string';
  const calls = listOf(field(data, 'module')).flatMap((block) => Object.entries(record(block)));
  return {
    constraints: listOf(field(data, 'terraform'))
      .map((block) => field(block, 'required_version'))
      .filter(isText),
    sources: calls
      .map(([name, call]): [string, unknown] => [name, field(listOf(call)[0], 'source')])
      .filter((entry): entry is [string, string] => isText(entry[1])),
  };
}
