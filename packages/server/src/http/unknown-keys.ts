/**
 * Keys of a body that the contract does not have. The route declares whether they are ignored or rejected, see
 * `UnknownKeys` of the contract. The check knows the names of the body's fields in the case of the contract.
 */
import type { RouteDef } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { isZeroTime, NIL_UUID } from '../app/values/ids.ts';

interface JsonSchema {
  type?: string;
  properties?: Record<string, JsonSchema>;
  patternProperties?: Record<string, JsonSchema>;
  items?: JsonSchema;
}

/** @throws AppError `invalid` that names the keys of a body that must not be ignored */
export type UnknownKeyCheck = (body: unknown) => void;

/** The check for a route. Undefined if it ignores unknown keys. `method` is the route's. */
export function unknownKeyCheck(method: string, def: RouteDef): UnknownKeyCheck | undefined {
  const { body, unknownKeys, responses } = def;
  if (!unknownKeys?.rejects) return undefined;
  // clients send a resource back with all fields that they have read, to change some
  const answer = method === 'PUT' || method === 'PATCH' ? responses[200] : undefined;
  const schemas = [body, without(answer, unknownKeys)].filter((one) => typeof one === 'object') as JsonSchema[];
  return (value) => {
    const found: string[] = [];
    for (const { path, value: one, isTop } of unknownIn(schemas, value)) {
      const foreign = isTop ? unknownKeys.foreign.get(path.toLowerCase()) : undefined;
      if (isUnset(path, one)) continue;
      if (foreign?.harmless(one, value as Record<string, unknown>)) continue;
      found.push(path);
      if (found.length === MAX_NAMED) break;
    }
    if (found.length === 0) return;
    throw new AppError('invalid', `This server cannot enforce ${found.map((path) => `"${path}"`).join(' and ')}.`, {
      detail: 'Leave it out. The result then has no such restriction.',
      validations: found.map((field) => ({ field, detail: 'is not supported, and it is not safe to ignore' })),
    });
  };
}

/** The schema of an answer that clients send back, without the keys that the route judges. */
function without(answer: unknown, { foreign }: NonNullable<RouteDef['unknownKeys']>): unknown {
  const { properties } = (answer ?? {}) as JsonSchema;
  if (!properties || foreign.size === 0) return answer;
  const known = Object.entries(properties).filter(([name]) => !foreign.has(name));
  return { ...(answer as JsonSchema), properties: Object.fromEntries(known) };
}

/** The largest number of keys that an error names, and of characters of one. */
const MAX_NAMED = 10;
const MAX_NAME_LENGTH = 100;

interface Unknown {
  /** With the fields around it, shortened. */
  path: string;
  value: unknown;
  /** Whether it is a key of the body itself. */
  isTop: boolean;
}

/** The keys that none of the schemas has. Those of maps are data. Values of a wrong type are left to validation. */
function* unknownIn(schemas: readonly JsonSchema[], value: unknown, path = ''): Generator<Unknown> {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    const items = schemas.flatMap((one) => one.items ?? []);
    if (items.length > 0) for (const item of value) yield* unknownIn(items, item, path);
    return;
  }
  const isTop = path === '';
  if (schemas.some(({ patternProperties }) => patternProperties)) {
    const entries = schemas.flatMap((one) => Object.values(one.patternProperties ?? {}));
    for (const one of Object.values(value)) yield* unknownIn(entries, one, path);
    return;
  }
  if (!isTop && !schemas.some(({ properties }) => properties)) return;
  for (const [key, one] of Object.entries(value)) {
    const name = `${isTop ? '' : `${path}.`}${key.slice(0, MAX_NAME_LENGTH)}`;
    const inner = schemas.flatMap(({ properties }) =>
      properties && Object.hasOwn(properties, key) ? [properties[key]!] : [],
    );
    if (inner.length > 0) yield* unknownIn(inner, one, name);
    else yield { path: name, value: one, isTop };
  }
}

/**
 * Whether upstream's clients send this value for an unset field: Go's zero values. A permission that is false is set,
 * because what it does not permit would be permitted.
 */
function isUnset(path: string, value: unknown): boolean {
  if (value === false) return !/(^|[._])(allow|enable|permit)/i.test(path);
  if (value === null || value === '' || value === 0 || value === NIL_UUID) return true;
  if (typeof value === 'string') return isZeroTime(value);
  if (typeof value !== 'object') return false;
  return Object.entries(value).every(([key, one]) => !Array.isArray(value) && isUnset(key, one));
}
