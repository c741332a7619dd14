import { type RouteDef, routes } from './routes/index.ts';
import type { UnknownKeys } from './routes/unknown-keys.ts';

const cell = (text: string) => text.replaceAll('|', '\\|');

function foreignText({ rejects, foreign }: UnknownKeys): string {
  return [...foreign]
    .map(([name, { text, except, harmless }]) => {
      const restricts = rejects && (except !== undefined || !harmless('any value', {}));
      const unless = except === undefined ? '' : `, except ${except}`;
      const verdict = restricts ? `rejected${unless}` : 'ignored';
      return `\`${name}\` (${text}): ${verdict}`;
    })
    .join('<br>');
}

/** The page docs/reference/unknown-keys.md: what each route does with keys of a body that it does not have. */
export function unknownKeysPage(): string {
  const writing = (Object.entries(routes) as [string, RouteDef][]).filter(
    ([key, { bodyTypes }]) => !key.startsWith('GET ') && !bodyTypes,
  );
  const declared = writing.flatMap(([key, def]) => (def.unknownKeys ? [[key, def.unknownKeys] as const] : []));
  const reasons = [...new Map(declared.map(([, one]) => [one.reason, one])).values()];
  const sections = reasons
    .sort((a, b) => Number(b.rejects) - Number(a.rejects))
    .flatMap(({ reason, rejects, text }) => [
      `## ${rejects ? 'Rejected' : 'Ignored'}: ${reason}`,
      '',
      `${text}.`,
      '',
      '| Route | Keys of other versions of upstream |',
      '|---|---|',
      ...declared
        .filter(([, one]) => one.reason === reason)
        .map(([key, one]) => `| \`${key}\` | ${cell(foreignText(one))} |`),
      '',
    ]);
  const bodiless = writing.filter(([, def]) => !def.body && !def.unknownKeys).map(([key]) => `- \`${key}\``);
  return `${[
    '# Keys that a route does not have',
    '',
    'This page lists how the server treats unknown keys in a JSON body. Clients of newer versions send such keys.',
    '',
    '- If ignoring a key could give more access, a weaker limit or more work than the client asked for, the server',
    '  rejects the request with 400 and names the key.',
    '- Elsewhere it ignores the key.',
    '',
    'A route that rejects accepts keys with Go\'s zero values (`null`, `false`, `0`, `""`, empty lists and objects), because',
    'Go programs send them for unset fields, unless `false` stands for a permission (`allow…`, `enable…`, `permit…`). A PUT',
    'or PATCH also accepts the fields of its answer, because clients send back what they have read. The rules apply to objects',
    'within the body, too. Keys of maps, such as tags, are data.',
    '',
    'This page is generated from the source by `node packages/contract/src/write-docs.ts`.',
    '',
    ...sections,
    '## Without a body',
    '',
    'These routes read no body.',
    '',
    ...bodiless,
  ].join('\n')}\n`;
}
