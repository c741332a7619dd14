import { posix } from 'node:path';
import type { Expr } from './ast.ts';
import { sourceNames } from './module.ts';
import { parseHcl } from './parser.ts';
import { fetchedFolders } from './program/configuration.ts';

/** Larger files are not read for it, so that this takes milliseconds at most. Terraform itself checks every file. */
const MOST_BYTES = 64 * 1024;
/** The rest of the modules is left out when this much was read. */
const MOST_TOTAL_BYTES = 1024 * 1024;
const MOST_FOLDERS = 500;

interface Found {
  constraints: string[];
  /** By the name of the call. */
  sources: [name: string, source: string][];
}

/**
 * The constraints `required_version` in the `terraform` blocks of a template and of the modules that it calls, each
 * once. `files`: by path from the template's root, those of fetched modules included. Leaves out what cannot be read:
 * Terraform reports it later.
 */
export function requiredVersions(files: Readonly<Record<string, string | Uint8Array>>): string[] {
  const manifest = files[MANIFEST];
  const fetched = fetchedFolders(manifest === undefined ? undefined : decode(manifest));
  const byFolder = new Map<string, string[]>();
  for (const path of Object.keys(files)) {
    const folder = posix.dirname(path);
    byFolder.set(folder, [...(byFolder.get(folder) ?? []), posix.basename(path)]);
  }
  const constraints = new Set<string>();
  const seen = new Set(['.']);
  const open: { folder: string; key: string }[] = [{ folder: '.', key: '' }];
  let bytes = 0;
  for (const { folder, key } of open) {
    for (const name of sourceNames(byFolder.get(folder) ?? [])) {
      const path = posix.join(folder, name);
      const content = files[path]!;
      if (content.length > MOST_BYTES || bytes + content.length > MOST_TOTAL_BYTES) continue;
      const text = decode(content);
      if (!/required_version|module/.test(text)) continue;
      bytes += content.length;
      const found = name.endsWith('.json') ? ofJson(text) : ofNative(text, path);
      for (const constraint of found.constraints) constraints.add(constraint);
      for (const [call, source] of found.sources) {
        const inner = key === '' ? call : `${key}.${call}`;
        const local = /^\.\.?\//.test(source) ? posix.join(folder, source) : undefined;
        const next = posix.normalize(fetched.get(inner) ?? local ?? '').replace(/\/$/, '');
        if (!byFolder.has(next) || seen.has(next) || seen.size === MOST_FOLDERS) continue;
        seen.add(next);
        // iterating over an array includes the items added meanwhile
        open.push({ folder: next, key: inner });
      }
    }
  }
  return [...constraints];
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
  try {
    const { terraform, module } = JSON.parse(text) as { terraform?: unknown; module?: unknown };
    const of = (value: unknown, attribute: string) => (value as Record<string, unknown> | undefined)?.[attribute];
    const isText = (value: unknown) => typeof value === 'string';
    return {
      constraints: [terraform]
        .flat()
        .map((block) => of(block, 'required_version'))
        .filter(isText),
      sources: [module]
        .flat()
        .flatMap((calls) => Object.entries(calls ?? {}))
        .map(([name, call]): [string, unknown] => [name, of([call].flat()[0], 'source')])
        .filter((entry): entry is [string, string] => isText(entry[1])),
    };
  } catch {
    return { constraints: [], sources: [] };
  }
}
