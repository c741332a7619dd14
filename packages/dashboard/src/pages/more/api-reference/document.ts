/** Reads an OpenAPI 3 document: its operations, and the shapes of their requests and answers. */
import { shellWord } from '../../../util/shell.ts';

/** The parts of a JSON schema that the server's document uses. */
export interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  enum?: readonly unknown[];
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  patternProperties?: Readonly<Record<string, Schema>>;
  anyOf?: readonly Schema[];
  nullable?: boolean;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
}

interface Content {
  content?: Readonly<Record<string, { schema: Schema }>>;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query';
  required: boolean;
  schema: Schema;
}

interface RawOperation {
  tags: readonly [string];
  operationId: string;
  summary?: string;
  parameters?: readonly Parameter[];
  requestBody?: Content;
  responses: Readonly<Record<string, Content & { description: string }>>;
  security: readonly object[];
}

export interface ApiDocument {
  info: { title: string; version: string };
  servers: readonly { url: string }[];
  paths: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>;
  components: { schemas: Readonly<Record<string, Schema>> };
}

export interface Answer {
  status: string;
  description: string;
  schema: Schema | undefined;
}

export interface Operation {
  id: string;
  tag: string;
  method: string;
  path: string;
  summary: string;
  parameters: readonly Parameter[];
  body: { type: string; schema: Schema } | undefined;
  answers: readonly Answer[];
  needsSession: boolean;
  /** The connection stays open: a WebSocket or a stream of events. */
  isStream: boolean;
}

/** The operations of a document, by tag and path. */
export function operationsOf(document: ApiDocument): Operation[] {
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, raw]): Operation => {
      const [body] = Object.entries(raw.requestBody?.content ?? {});
      return {
        id: raw.operationId,
        tag: raw.tags[0],
        method: method.toUpperCase(),
        path,
        summary: raw.summary ?? '',
        parameters: raw.parameters ?? [],
        body: body && { type: body[0], schema: body[1].schema },
        answers: Object.entries(raw.responses).map(([status, { description, content }]) => ({
          status,
          description,
          schema: Object.values(content ?? {})[0]?.schema,
        })),
        needsSession: raw.security.some((one) => 'CoderSessionToken' in one),
        isStream: Object.values(raw.responses).some(({ description }) => /websocket|sse/.test(description)),
      };
    }),
  );
  return all.toSorted((a, b) => a.tag.localeCompare(b.tag) || a.path.localeCompare(b.path));
}

/** The operations that have all words of a search in their method, path, tag or summary. */
export function searchOperations(operations: readonly Operation[], search: string): Operation[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return operations.filter(({ method, path, tag, summary }) => {
    const text = `${method} ${path} ${tag} ${summary}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const REF = '#/components/schemas/';

/** The name of the schema that a reference means. */
export const schemaName = ({ $ref }: Schema): string | undefined =>
  $ref?.startsWith(REF) ? $ref.slice(REF.length) : undefined;

/** The schema itself, where it refers to one of the document or gives a choice of forms. */
export function resolve(document: ApiDocument, schema: Schema): Schema {
  const name = schemaName(schema);
  if (name !== undefined) return resolve(document, document.components.schemas[name] ?? {});
  // the first form is the one that the server sends. Others are documented by upstream
  if (schema.anyOf?.[0]) return { ...resolve(document, schema.anyOf[0]), nullable: schema.nullable ?? false };
  return schema;
}

/** The values of a map: all names have the same form. */
export function valuesOf(schema: Schema): Schema | undefined {
  const { additionalProperties, patternProperties } = schema;
  if (patternProperties) return Object.values(patternProperties)[0];
  return typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

/** "string", "User[]", "map of string". */
export function typeText(document: ApiDocument, schema: Schema): string {
  const name = schemaName(schema);
  const found = resolve(document, schema);
  if (found.type === 'array' && found.items) return `${typeText(document, found.items)}[]`;
  if (name !== undefined && found.type === 'object') return name;
  const values = valuesOf(found);
  if (values) return `map of ${typeText(document, values)}`;
  return found.format ?? found.type ?? (found.enum ? 'string' : 'any');
}

/** A value that fits the schema. A schema that contains itself ends with an empty value. */
export function exampleOf(document: ApiDocument, schema: Schema, inside: readonly string[] = []): unknown {
  const name = schemaName(schema);
  if (name !== undefined && inside.includes(name)) return null;
  const path = name === undefined ? inside : [...inside, name];
  const found = resolve(document, schema);
  if (found.enum) return found.enum.find((value) => value !== '') ?? found.enum[0];
  switch (found.type) {
    case 'object': {
      const values = valuesOf(found);
      if (!found.properties && values) return { name: exampleOf(document, values, path) };
      return Object.fromEntries(
        Object.entries(found.properties ?? {}).map(([key, each]) => [key, exampleOf(document, each, path)]),
      );
    }
    case 'array':
      return found.items ? [exampleOf(document, found.items, path)] : [];
    case 'boolean':
      return false;
    case 'integer':
    case 'number':
      return Math.max(0, found.minimum ?? 0);
    case 'string':
      if (found.format === 'uuid') return '497f6eca-6276-4993-bfeb-53cbbbba6f08';
      if (found.format === 'date-time') return '2026-01-31T12:00:00Z';
      return 'string';
    default:
      return null;
  }
}

/** The path with its parameters filled in, and the query. Empty values are left out of the query. */
export function fillIn(operation: Operation, values: Readonly<Record<string, string>>): string {
  const path = operation.path.replace(/\{([^}]+)\}/g, (whole, name: string) =>
    values[name] ? encodeURIComponent(values[name]) : whole,
  );
  const query = operation.parameters.flatMap(({ name, in: place }) =>
    place === 'query' && values[name] ? [[name, values[name]] as [string, string]] : [],
  );
  return path + (query.length > 0 ? `?${new URLSearchParams(query)}` : '');
}

/** The same call in a shell. */
export function curlOf(operation: Operation, server: string, path: string, body: string | undefined): string {
  return [
    `curl ${operation.method === 'GET' ? '' : `-X ${operation.method} `}${shellWord(`${server}/api/v2${path}`)}`,
    ...(operation.needsSession ? ['-H "Coder-Session-Token: $CODER_SESSION_TOKEN"'] : []),
    ...(operation.body ? [`-H ${shellWord(`Content-Type: ${operation.body.type}`)}`] : []),
    ...(body === undefined ? [] : [`-d ${shellWord(body)}`]),
  ].join(' \\\n  ');
}
