// Files of secrets for an import: a flat list of names and values as lines NAME=VALUE, JSON or YAML. Errors contain names
// and lines, never values: the file may be another secret that somebody chose by mistake.

import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { envNameProblem, MAX_SECRETS, type NewSecret } from './user-secret.ts';

export const SECRET_FILE_FORMATS = ['env', 'json', 'yaml'] as const;
export type SecretFileFormat = (typeof SECRET_FILE_FORMATS)[number];

/** The maximum length of a file in bytes. */
export const MAX_SECRET_FILE_BYTES = 1024 * 1024;

/** A node of a YAML document. Only scalars of texts count. */
interface YamlDocument {
  contents: unknown;
  errors: readonly { linePos?: readonly { line: number }[] | undefined }[];
}
/** `parseAllDocuments` of the package yaml, which only programs that read YAML load. */
export type ReadYaml = (text: string, options: { prettyErrors: true; uniqueKeys: false }) => readonly YamlDocument[];

interface Entry {
  name: string;
  value: string;
  line?: number | undefined;
}

const invalid = (problem: string) => new AppError('invalid', problem);
const notText = (name: string) => invalid(`The value of ${JSON.stringify(name)} must be a text. Put it in quotes.`);

/**
 * Reads a file of secrets. A name that is possible for an environment variable is the secret's variable. Others become
 * disabled secrets without one.
 * @throws AppError `invalid`
 */
export function parseSecretFile(format: SecretFileFormat, content: string, readYaml: ReadYaml): NewSecret[] {
  if (new TextEncoder().encode(content).length > MAX_SECRET_FILE_BYTES)
    throw invalid(`A file of secrets must not exceed ${MAX_SECRET_FILE_BYTES} bytes.`);
  const read = { env: envEntries, json: jsonEntries, yaml: (text: string) => yamlEntries(text, readYaml) };
  const entries = content.trim() === '' ? [] : read[format](content);
  if (entries.length === 0) throw invalid('The file contains no secrets.');
  if (entries.length > MAX_SECRETS)
    throw invalid(`The file contains ${entries.length} secrets. A person can have at most ${MAX_SECRETS}.`);
  const names = new Set<string>();
  for (const { name, line } of entries) {
    if (names.has(name))
      throw invalid(
        `The name ${JSON.stringify(name)} appears twice${line === undefined ? '' : `: again on line ${line}`}.`,
      );
    names.add(name);
  }
  return entries.map(({ name, value }) =>
    name !== '' && envNameProblem(name) === undefined
      ? { name, value, env_name: name }
      : { name, value, enabled: false },
  );
}

/** Lines NAME=VALUE. Nothing is expanded, and a value is the rest of its line: secrets contain `$` and `#`. */
function envEntries(content: string): Entry[] {
  return content
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .flatMap((text, at) => {
      const line = at + 1;
      if (/^\s*(#|$)/.test(text)) return [];
      const found = /^[ \t]*(?:export[ \t]+)?([^=]*)=[ \t]*(.*)$/s.exec(text);
      if (!found) throw invalid(`Line ${line} is not NAME=VALUE.`);
      const name = found[1]!.trim();
      if (name === '') throw invalid(`Line ${line} has no name before "=".`);
      return [{ name, value: envValue(found[2]!, line), line }];
    });
}

const ESCAPED: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', '\\': '\\', '"': '"' };

function envValue(text: string, line: number): string {
  const [quote] = text;
  if (quote !== '"' && quote !== "'") return text.trim();
  const [, inner, rest] = (quote === '"' ? /^"((?:[^"\\]|\\.)*)"(.*)$/s : /^'([^']*)'(.*)$/s).exec(text) ?? [];
  if (inner === undefined) throw invalid(`Line ${line} has no closing quote.`);
  if (rest!.trim() !== '') throw invalid(`Line ${line} continues after its closing quote.`);
  return quote === "'" ? inner : inner.replaceAll(/\\(.)/gs, (all, char: string) => ownValue(ESCAPED, char) ?? all);
}

/** An object of texts. It is read entry by entry, since a parsed object has lost the first of two equal names. */
function jsonEntries(content: string): Entry[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(content);
  } catch {
    throw invalid('The file is not valid JSON.');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw invalid('The file must contain one JSON object with texts as values.');
  const entries: Entry[] = [];
  const next = /[\s{,]*("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|.)/gsy;
  for (let found = next.exec(content); found; found = next.exec(content)) {
    const name = JSON.parse(found[1]!) as string;
    if (!found[2]!.startsWith('"')) throw notText(name);
    entries.push({ name, value: JSON.parse(found[2]!) as string });
  }
  return entries;
}

function yamlEntries(content: string, readYaml: ReadYaml): Entry[] {
  const documents = readYaml(content, { prettyErrors: true, uniqueKeys: false });
  const error = documents.flatMap(({ errors }) => errors)[0];
  if (error) {
    const line = error.linePos?.[0]?.line;
    throw invalid(`The file is not valid YAML${line === undefined ? '' : `: see line ${line}`}.`);
  }
  if (documents.length > 1) throw invalid('The file must contain one YAML document.');
  const contents = documents[0]?.contents as { items?: { key: unknown; value: unknown }[] } | null | undefined;
  if (!contents) return [];
  const pairs = contents.items;
  if (!pairs?.every((pair) => typeof pair === 'object' && pair !== null && 'key' in pair))
    throw invalid('The file must contain one YAML mapping with texts as values.');
  return pairs.map(({ key, value }) => {
    const name = scalar(key);
    if (typeof name !== 'string') throw invalid('Names in YAML must be texts. Put them in quotes.');
    const text = scalar(value);
    if (typeof text !== 'string') throw notText(name);
    return { name, value: text };
  });
}

const scalar = (node: unknown): unknown =>
  typeof node === 'object' && node !== null && 'value' in node && !('items' in node) ? node.value : undefined;
