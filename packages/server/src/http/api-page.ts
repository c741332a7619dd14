import { apiPath, openApiDocument } from '@ropewalk/contract';
import type { FastifyInstance } from 'fastify';

interface Parameter {
  name: string;
  in: string;
  required: boolean;
  schema: unknown;
}
interface Content {
  content?: Record<string, { schema: unknown }>;
}
interface Operation {
  tags: string[];
  summary?: string;
  parameters?: Parameter[];
  requestBody?: Content;
  responses: Record<string, Content>;
}
interface Document {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
}

/** Serves the API's description for people, at upstream's addresses. */
export function apiPage(app: FastifyInstance, version: string): void {
  let page: string | undefined;
  for (const path of ['/swagger', '/swagger/index.html']) {
    app.get(path, async (_request, reply) => {
      page ??= render(openApiDocument(version) as unknown as Document);
      return reply
        .type('text/html; charset=utf-8')
        .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
        .send(page);
    });
  }
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** A schema as a link to its name, or as its JSON. */
function schemaText(schema: unknown): string {
  const name = /^#\/components\/schemas\/(.+)$/.exec((schema as { $ref?: string }).$ref ?? '')?.[1];
  if (name !== undefined) return `<a href="#schema-${escaped(name)}"><code>${escaped(name)}</code></a>`;
  const { type, items } = schema as { type?: string; items?: unknown };
  if (type === 'array' && items !== undefined) return `list of ${schemaText(items)}`;
  return `<code>${escaped(JSON.stringify(schema))}</code>`;
}

function contentText({ content }: Content): string {
  return Object.entries(content ?? {})
    .map(([type, { schema }]) => `${escaped(type)}: ${schemaText(schema)}`)
    .join('<br>');
}

function operationText(method: string, path: string, operation: Operation): string {
  const rows = [
    ...(operation.parameters ?? []).map(
      ({ name, in: place, required, schema }) =>
        [`<code>${escaped(name)}</code> (${place}${required ? ', required' : ''})`, schemaText(schema)] as const,
    ),
    ...(operation.requestBody ? ([['body', contentText(operation.requestBody)]] as const) : []),
    ...Object.entries(operation.responses).map(
      ([code, response]) => [`answer ${code}`, contentText(response)] as const,
    ),
  ];
  return `<details><summary><b>${method.toUpperCase()}</b> <code>${escaped(path)}</code> ${escaped(
    operation.summary ?? '',
  )}</summary><table>${rows.map(([name, text]) => `<tr><th scope="row">${name}</th><td>${text}</td></tr>`).join('')}</table></details>`;
}

const STYLE = `:root{color-scheme:light dark;font:14px/1.5 system-ui,sans-serif}
body{max-width:70rem;margin:0 auto;padding:1rem}
code,pre{font-family:ui-monospace,monospace;font-size:13px;overflow-wrap:anywhere}
pre{overflow:auto}summary{cursor:pointer;padding:.25rem 0}
table{border-collapse:collapse;margin:.5rem 0 1rem}th,td{text-align:left;vertical-align:top;padding:.25rem 1rem .25rem 0;font-weight:normal}`;

function render({ info, paths, components }: Document): string {
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0] ?? 'Other';
      byTag.set(tag, [...(byTag.get(tag) ?? []), operationText(method, apiPath(path), operation)]);
    }
  }
  const tags = [...byTag].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const schemas = Object.entries(components.schemas).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>${escaped(info.title)}</title>
<style>${STYLE}</style></head><body><main><h1>${escaped(info.title)} ${escaped(info.version)}</h1>
<p>Send the session token in the header <code>Coder-Session-Token</code>. Programs read
<a href="/api/v2/openapi.json">openapi.json</a>.</p>
${tags.map(([tag, operations]) => `<h2>${escaped(tag)}</h2>${operations.join('\n')}`).join('\n')}
<h2>Schemas</h2>
${schemas
  .map(
    ([name, schema]) =>
      `<details id="schema-${escaped(name)}"><summary><code>${escaped(name)}</code></summary><pre>${escaped(
        JSON.stringify(schema, null, 2),
      )}</pre></details>`,
  )
  .join('\n')}
</main></body></html>
`;
}
