import { argumentsUsage } from './arguments.ts';
import type { Definition, FlagDef, FlagDefs } from './definition.ts';
import type { Node } from './tree.ts';

/** Help of a node: usage, subcommands, options. `version` goes on the first line. */
export function helpText(input: {
  version: string;
  path: readonly string[];
  node: Node;
  definition?: Definition | undefined;
  flags: FlagDefs;
  isRoot: boolean;
}): string {
  const { version, path, node, definition, flags, isRoot } = input;
  const out = [`coder ${version}`, '', 'USAGE:'];
  const options = Object.entries(flags).filter(([, def]) => !def.hidden);
  const usage = ['coder', ...path];
  if (options.length > 0 && !isRoot) usage.push('[flags]');
  if (node.children) usage.push(isRoot ? '[global-flags] <subcommand>' : node.load ? '[subcommand]' : '<subcommand>');
  else if (definition?.args) usage.push(argumentsUsage(definition.args));
  out.push(`  ${usage.join(' ')}`, '');
  const about = [node.summary, definition?.help].filter((text) => text !== undefined);
  if (about.length > 0) out.push(...about.flatMap((text) => [...wrap(text, 78).map((line) => `  ${line}`), '']));
  if (node.aliases?.length) out.push(`  Aliases: ${node.aliases.join(', ')}`, '');
  const children = Object.entries(node.children ?? {}).filter(([, child]) => !child.hidden);
  if (children.length > 0) {
    const width = Math.max(...children.map(([name]) => name.length)) + 4;
    out.push('SUBCOMMANDS:');
    for (const [name, child] of children) out.push(`    ${name.padEnd(width)}${child.summary ?? ''}`.trimEnd());
    out.push('');
  }
  if (options.length > 0) {
    out.push(isRoot ? 'GLOBAL OPTIONS:' : 'OPTIONS:');
    for (const [name, def] of options.sort(([a], [b]) => (a < b ? -1 : 1))) out.push(...optionLines(name, def), '');
  }
  if (!isRoot) out.push('———', 'Run `coder --help` for the global options.');
  return `${out.join('\n').trimEnd()}\n`;
}

function optionLines(name: string, def: FlagDef): string[] {
  const type = def.values ? def.values.join('|') : (def.type ?? 'bool');
  const env = def.env ? `, $${def.env}` : '';
  const fallback = def.default === undefined || def.default === '' ? '' : ` (default: ${def.default})`;
  const head = `  ${def.short ? `-${def.short}, ` : '    '}--${name} ${type}${env}${fallback}`;
  return [head, ...wrap(def.description ?? '', 68).map((line) => `          ${line}`)];
}

export function wrap(text: string, width: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let line = '';
    for (const word of paragraph.split(/(?<=\S) +/)) {
      if (line !== '' && line.length + 1 + word.length > width) {
        lines.push(line);
        line = word;
      } else {
        line = line === '' ? word : `${line} ${word}`;
      }
    }
    return line === '' && lines.length > 0 ? lines : text === '' ? [] : [...lines, line];
  });
}
