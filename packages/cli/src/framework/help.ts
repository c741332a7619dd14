import { argumentsUsage } from './arguments.ts';
import type { Node } from './context.ts';
import type { Style } from './style.ts';
import type { Definition, Example, FlagDef, FlagDefs } from './types.ts';

/** Lines longer than this are hard to read, however wide the terminal is. */
const MAX_WIDTH = 100;

export interface HelpInput {
  /** Shown on the first line. */
  version: string;
  path: readonly string[];
  node: Node;
  definition?: Definition | undefined;
  flags: FlagDefs;
  isRoot: boolean;
  /** The columns of the terminal. */
  width: number;
  style: Style;
}

/** The help of a command or group: usage, examples, subcommands, options. */
export function helpText(input: HelpInput): string {
  const { version, path, node, definition, flags, isRoot, style } = input;
  const width = Math.min(input.width, MAX_WIDTH);
  const heading = (text: string) => style('bold', text);
  const out = [`coder ${version}`, '', heading('USAGE:')];
  const options = Object.entries(flags).filter(([, def]) => !def.hidden);
  const usage = ['coder', ...path];
  if (options.length > 0 && !isRoot) usage.push('[flags]');
  if (definition?.args) usage.push(argumentsUsage(definition.args));
  else if (node.children)
    usage.push(isRoot ? '[global-flags] <subcommand>' : node.load ? '[subcommand]' : '<subcommand>');
  out.push(...indent(wrap(usage.join(' '), width - 4), 2, 2), '');
  const about = [node.summary && `${node.summary}.`, definition?.help].filter((text) => text !== undefined);
  for (const text of about) out.push(...indent(wrap(text, width - 2), 2), '');
  if (node.aliases?.length) out.push(`  Aliases: ${node.aliases.join(', ')}`, '');
  const examples = definition?.examples ?? node.examples ?? [];
  if (examples.length > 0) out.push(heading('EXAMPLES:'), ...exampleLines(examples, width, style), '');
  out.push(...childLines(node, width, style));
  if (options.length > 0) {
    out.push(heading(isRoot ? 'GLOBAL OPTIONS:' : 'OPTIONS:'));
    for (const [name, def] of options.sort(([a], [b]) => (a < b ? -1 : 1))) {
      out.push(...optionLines(name, def, width, style), '');
    }
  }
  if (!isRoot) out.push('———', 'Run `coder --help` for the global options.');
  return `${out.join('\n').trimEnd()}\n`;
}

function exampleLines(examples: readonly Example[], width: number, style: Style): string[] {
  return examples.flatMap(({ does, run }, i) => [
    ...(i > 0 ? [''] : []),
    ...indent(wrap(`${does}:`, width - 2), 2),
    `      ${style('cyan', run)}`,
  ]);
}

/** The subcommands, below the headings of their groups where they have groups. */
function childLines(node: Node, width: number, style: Style): string[] {
  const children = Object.entries(node.children ?? {}).filter(([, child]) => !child.hidden);
  if (children.length === 0) return [];
  const column = Math.max(...children.map(([name]) => name.length)) + 3;
  const out = [style('bold', 'SUBCOMMANDS:')];
  let group: string | undefined;
  for (const [name, child] of children) {
    if (child.group !== group) {
      if (group !== undefined) out.push('');
      group = child.group;
      if (group !== undefined) out.push(`  ${style('bold', group)}`);
    }
    const [first = '', ...more] = wrap(child.summary ?? '', width - 4 - column);
    out.push(`    ${name.padEnd(column)}${first}`.trimEnd(), ...indent(more, 4 + column));
  }
  return [...out, ''];
}

function optionLines(name: string, def: FlagDef, width: number, style: Style): string[] {
  const flag = `--${name}`;
  const type = def.values && (def.type ?? 'bool') !== 'string[]' ? def.values.join('|') : (def.type ?? 'bool');
  const env = def.env ? `, $${def.env}` : '';
  const isSwitch = type === 'bool' && def.default === 'false';
  const fallback = def.default && !isSwitch ? ` (default:${GLUE}${def.default})` : def.required ? ' (required)' : '';
  const head = wrap(`${def.short ? `-${def.short}, ` : ''}${flag} ${type}${env}${fallback}`, width - 10);
  const [first, ...more] = head;
  const start = `${def.short ? '  ' : '      '}${first}`;
  return [
    start.replace(flag, style('bold', flag)),
    ...indent(more, 10),
    ...indent(wrap(def.description ?? '', width - 10), 10),
  ];
}

function indent(lines: readonly string[], first: number, further = 0): string[] {
  return lines.map((line, i) => `${' '.repeat(i === 0 ? first : first + further)}${line}`);
}

/** A space that does not end a line. */
const GLUE = '\u00a0';

/** Breaks a text into lines of at most `width` columns, at spaces and after commas. Longer words stay whole. */
export function wrap(text: string, width: number): string[] {
  if (text === '') return [];
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let line = '';
    for (const [, space = '', word = ''] of paragraph.matchAll(/( *)([^ ,]*,+|[^ ,]+)/g)) {
      if (line !== '' && line.length + space.length + word.length > width) {
        lines.push(line);
        line = word;
      } else line += line === '' ? word : space + word;
    }
    return [...lines, line].map((one) => one.replaceAll(GLUE, ' '));
  });
}
