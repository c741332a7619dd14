import type { OptionRow } from './option.ts';
import { options } from './options.ts';

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
const code = (text: string | undefined) => (text ? `\`${text}\`` : '');

/** The page docs/reference/server-options.md: every server option by group, in the order of the table. */
export function optionsPage(): string {
  const groups = new Map<string, OptionRow[]>();
  for (const row of Object.values(options) as OptionRow[]) {
    groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
  }
  const sections = [...groups.keys()].sort().map((group) => {
    const lines = groups.get(group)!.map((row) => {
      const flag = `${row.short ? `\`-${row.short}\`, ` : ''}${code(row.flag && `--${row.flag}`)}`;
      const notes = [
        row.values ? `One of ${row.values.map(code).join(', ')}.` : '',
        row.secret ? 'Secret: not shown, and not passed to other processes.' : '',
      ];
      const text = [row.description, ...notes].filter(Boolean).join(' ');
      return `| ${flag} | ${code(row.env)} | ${code(row.yaml)} | ${row.type} | ${cell(code(row.default))} | ${cell(text)} |`;
    });
    return [
      `## ${group}`,
      '',
      '| Flag | Environment | YAML | Type | Default | What it does |',
      '|---|---|---|---|---|---|',
      ...lines,
    ].join('\n');
  });
  return `${[
    '# Server options',
    '',
    'Every option of `coder server`. A flag overrides the environment variable, which overrides the YAML file (`--config`),',
    'which overrides the default. Durations look like `90s`, `1h30m` or `7d`. Lists are separated by commas.',
    '',
    'This page is generated from the source by `node packages/server/src/config/write-docs.ts`.',
    '',
    sections.join('\n\n'),
  ].join('\n')}\n`;
}
