import { Document, type YAMLMap } from 'yaml';
import { type OptionRow, type OptionType, parseOption } from './option.ts';
import type { OptionName } from './options/rows.ts';
import { options } from './options.ts';

/** What YAML has values for. The others are texts. */
const AS_VALUES: ReadonlySet<OptionType> = new Set(['int', 'bool', 'string[]', 'json']);

/**
 * The YAML file with the values of these options, which `--config` reads. Each has its description as a comment. Leaves
 * out secrets, and options without an effect or a key.
 *
 * @param texts the texts of the options that have a value
 */
export function configYaml(texts: Partial<Record<OptionName, string>>): string {
  const document = new Document({});
  for (const [name, row] of Object.entries(options) as [OptionName, OptionRow][]) {
    const text = texts[name];
    if (row.yaml === undefined || row.secret || row.ignored !== undefined || text === undefined) continue;
    const path = row.yaml.split('.');
    const group = groupAt(document, path.slice(0, -1));
    const key = document.createNode(path.at(-1));
    key.commentBefore = ` ${row.description}`;
    group.add(document.createPair(key, yamlValue(row, text)));
  }
  return document.toString({ lineWidth: 0 });
}

/** The map below these keys, which is made if it is missing. */
function groupAt(document: Document, keys: readonly string[]): YAMLMap {
  let group = document.contents as YAMLMap;
  for (const key of keys) {
    if (!group.has(key)) group.set(key, document.createNode({}));
    group = group.get(key) as YAMLMap;
  }
  return group;
}

/** The value of an option as YAML has it. */
const yamlValue = (row: OptionRow, text: string): unknown =>
  AS_VALUES.has(row.type) ? parseOption(row, text, row.yaml!) : text;
