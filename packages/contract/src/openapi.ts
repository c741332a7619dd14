import type { TSchema } from 'typebox';
import { apiPath } from './api-path.ts';
import { Nothing, type RouteDef, routes } from './routes/index.ts';
import { Response } from './schema/common.ts';
import { documentedForm, schemaName } from './schema/kit.ts';

type Json = Record<string, unknown>;

/** Builds the OpenAPI 3.0 document of the whole API from the schemas that validate and serialize. */
export function openApiDocument(version: string): Json {
  const components: Record<string, Json> = {};
  const bare = (schema: Json): Json => {
    const out: Json = {};
    for (const [key, value] of Object.entries(schema)) out[key] = convert(value);
    const published = documentedForm(schema);
    return published ? { anyOf: [out, convert(published)] } : out;
  };
  const convert = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(convert);
    if (value === null || typeof value !== 'object') return value;
    const name = schemaName(value);
    if (name === undefined) return bare(value as Json);
    if (!(name in components)) {
      components[name] = {};
      components[name] = bare(value as Json);
    }
    return { $ref: `#/components/schemas/${name}` };
  };
  const content = (schema: TSchema) => ({ 'application/json': { schema: convert(schema) } });
  const paths: Record<string, Json> = {};
  for (const [key, def] of Object.entries(routes) as [string, RouteDef][]) {
    const [method, path] = key.split(' ') as [string, string];
    const responses: Json = {};
    for (const [code, schema] of Object.entries(def.responses)) {
      responses[code] = {
        description: def.stream ? `Answers as ${def.stream}.` : 'Success',
        ...(schema === Nothing ? {} : { content: content(schema as TSchema) }),
      };
    }
    responses['default'] = { description: 'An error', content: content(Response) };
    const parameters = (['params', 'query'] as const).flatMap((part) => {
      const object = def[part];
      if (!object) return [];
      const required = new Set<string>((object as { required?: string[] }).required ?? []);
      return Object.entries(object.properties).map(([name, schema]) => ({
        name,
        in: part === 'params' ? 'path' : 'query',
        required: part === 'params' || required.has(name),
        schema: convert(schema),
      }));
    });
    const requestBody = def.body
      ? { required: true, content: content(def.body) }
      : def.bodyTypes
        ? {
            required: true,
            content: Object.fromEntries(
              def.bodyTypes.map((type) => [type, { schema: { type: 'string', format: 'binary' } }]),
            ),
          }
        : undefined;
    paths[path] ??= {};
    paths[path][method.toLowerCase()] = {
      tags: [def.tag],
      ...(path === apiPath(path) ? { servers: [{ url: '/' }] } : {}),
      operationId: operationId(method, path),
      ...(def.summary ? { summary: def.summary } : {}),
      ...(parameters.length > 0 ? { parameters } : {}),
      ...(requestBody ? { requestBody } : {}),
      responses,
      security: securityOf(def),
    };
  }
  return {
    openapi: '3.0.3',
    info: { title: 'Coder API', version },
    servers: [{ url: '/api/v2' }],
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        CoderSessionToken: { type: 'apiKey', in: 'header', name: 'Coder-Session-Token' },
        CoderProxyToken: { type: 'apiKey', in: 'header', name: 'Coder-External-Proxy-Token' },
      },
    },
  };
}

/** An empty requirement means that the request may have no session. */
function securityOf({ auth }: RouteDef): Json[] {
  const session = { CoderSessionToken: [] };
  if (auth === 'none') return [];
  if (auth === 'proxy') return [{ CoderProxyToken: [] }];
  return auth === 'optional' ? [session, {}] : [session];
}

function operationId(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
}
