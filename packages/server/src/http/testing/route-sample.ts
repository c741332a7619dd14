import type { RouteDef, RouteKey } from '@ropewalk/contract';
import { routes } from '@ropewalk/contract';

/** The id of a terminal to open. */
const TERMINAL = '00000000-0000-4000-8000-000000000000';

/** The fields of bodies and queries that name an object, and the path parameter that names the same. */
const FIELDS: Readonly<Record<string, string>> = {
  template_id: 'template',
  template_version_id: 'templateversion',
  file_id: 'fileID',
  build_ids: 'workspacebuild',
  organization_id: 'organization',
};

/** A value that the schema accepts, with these objects for ids. */
function sample(schema: unknown, things: Readonly<Record<string, string>>, name = ''): unknown {
  const { anyOf, ...common } = schema as Record<string, unknown>;
  if (Array.isArray(anyOf)) return sample({ ...common, ...anyOf[0] }, things, name);
  const { type, format, enum: values, properties, required, items, minItems = 0 } = common;
  if (name in FIELDS) return things[FIELDS[name]!];
  if (Array.isArray(values)) return values.find((value) => value !== '');
  if (properties || type === 'object') {
    const props = (properties ?? {}) as Record<string, unknown>;
    // a template is named where it can be, since its permissions count
    const wanted = [...((required ?? []) as string[]), ...('template_id' in props ? ['template_id'] : [])];
    return Object.fromEntries(wanted.map((key) => [key, sample(props[key], things, key)]));
  }
  if (type === 'array') return Array.from({ length: minItems as number }, () => sample(items, things));
  if (type === 'integer' || type === 'number') return 1;
  if (type === 'boolean') return true;
  if (format === 'uuid') return crypto.randomUUID();
  if (format === 'date-time') return new Date(Date.now() + 7_200_000).toISOString();
  if (name === 'email') return 'walker@example.com';
  return name === 'password' ? 'a walker of routes' : 'walker';
}

export interface SampleRequest {
  method: string;
  /** As in the contract. */
  path: string;
  body?: unknown;
  raw?: { type: string; data: string };
}

/** A valid request of a route about these objects, which are named by path parameter. */
export function sampleRequest(key: RouteKey, things: Readonly<Record<string, string>>): SampleRequest {
  const def: RouteDef = routes[key];
  const [method, path] = key.split(' ') as [string, string];
  const query = Object.entries(def.query?.properties ?? {}).flatMap(([name]) =>
    name in FIELDS ? [`${name}=${things[FIELDS[name]!]}`] : name === 'reconnect' ? [`reconnect=${TERMINAL}`] : [],
  );
  if (def.auth === 'daemon') query.push('provisioner=terraform', 'tag=scope%3Dorganization');
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const thing = things[name];
    if (thing === undefined) throw new Error(`no thing for {${name}}: add one`);
    return thing;
  });
  return {
    method,
    path: `${filled}${query.length > 0 ? `?${query.join('&')}` : ''}`,
    ...(def.body ? { body: sample(def.body, things) } : {}),
    ...(def.bodyTypes ? { raw: { type: def.bodyTypes[0]!, data: 'x' } } : {}),
  };
}
