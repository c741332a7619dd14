import assert from 'node:assert/strict';
import { MISDOCUMENTED, upstreamRest } from '@ropewalk/contract/upstream/facts';
import { Ajv, type ValidateFunction } from 'ajv';

let validators: ((key: string, status: number) => ValidateFunction | undefined) | undefined;

function load() {
  const upstream = upstreamRest();
  for (const definition of Object.values(upstream.definitions)) {
    for (const property of Object.values(definition.properties ?? {})) {
      // A list of values next to a reference repeats the reference and lags behind it: users' "dormant" is missing.
      if ('allOf' in property && 'enum' in property) delete property.enum;
    }
  }
  // facts.test.ts checks the schemas, not each file
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false, meta: false, validateSchema: false });
  ajv.addSchema({ $id: 'upstream', definitions: upstream.definitions });
  const names = (text: string) => text.replaceAll(/\{\w+\}/g, '{}');
  const paths = new Map(Object.entries(upstream.paths).map(([name, entry]) => [names(name), entry]));
  const made = new Map<string, ValidateFunction | undefined>();
  const make = (key: string, status: number) => {
    const [method, path] = key.split(' ') as [string, string];
    const schema = paths.get(names(path))?.[method.toLowerCase()]?.responses[String(status)];
    if (!schema || Object.keys(schema).length === 0) return undefined;
    const absolute = JSON.parse(
      JSON.stringify(schema).replaceAll('"#/definitions/', '"upstream#/definitions/'),
    ) as object;
    return ajv.compile(absolute);
  };
  return (key: string, status: number) => {
    const at = `${key} ${status}`;
    if (!made.has(at)) made.set(at, make(key, status));
    return made.get(at);
  };
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (inner === null ? [] : [[key, withoutNulls(inner)]])),
  );
}

/** Asserts that an answer has the shape that upstream documents for its route. An absent field may be null. */
export function assertUpstreamShape(key: string, status: number, body: unknown): void {
  if (key in MISDOCUMENTED) return;
  validators ??= load();
  const validate = validators(key, status);
  if (!validate || validate(withoutNulls(body))) return;
  const errors = (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  assert.fail(`${key} does not have the shape that upstream documents: ${[...new Set(errors)].join('; ')}`);
}
