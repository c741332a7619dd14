import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';

/**
 * Routes whose answer the published document describes otherwise than published programs send and read it. This
 * server speaks as the programs do.
 */
const OTHERWISE = new Set([
  'GET /experiments/available',
  'GET /organizations/{organization}/paginated-members',
  'GET /templates/{template}/versions/{templateversionname}',
  'GET /templateversions/{templateversion}/presets', // Go's own names of the fields
  'GET /users/{user}/quiet-hours',
  'PUT /users/{user}/quiet-hours',
  'GET /users/{user}/roles',
  'GET /deployment/config', // URLs, addresses and patterns are texts, not Go's structs
  'GET /workspacebuilds/{workspacebuild}/state', // bytes, not a build
]);

interface Published {
  paths: Record<string, Record<string, { responses: Record<string, object> }>>;
  definitions: Record<string, object>;
}

let validators: ((key: string, status: number) => ValidateFunction | undefined) | undefined;

function load(dir: string) {
  const published = JSON.parse(readFileSync(join(dir, 'rest-api.json'), 'utf8')) as Published;
  for (const definition of Object.values(published.definitions)) {
    for (const property of Object.values((definition as { properties?: Record<string, object> }).properties ?? {})) {
      // a list of values beside a reference repeats what that says and lags behind it: users' "dormant" is not in it
      if ('allOf' in property && 'enum' in property) delete property.enum;
    }
  }
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema({ $id: 'published', definitions: published.definitions });
  const made = new Map<string, ValidateFunction>();
  return (key: string, status: number) => {
    const [method, path] = key.split(' ') as [string, string];
    const names = (text: string) => text.replaceAll(/\{\w+\}/g, '{}');
    const entry = Object.entries(published.paths).find(([name]) => names(name) === names(path))?.[1];
    const schema = entry?.[method.toLowerCase()]?.responses[String(status)];
    if (!schema || Object.keys(schema).length === 0) return undefined;
    const at = `${key} ${status}`;
    const found = made.get(at);
    if (found) return found;
    const absolute = JSON.parse(
      JSON.stringify(schema).replaceAll('"#/definitions/', '"published#/definitions/'),
    ) as object;
    const validate = ajv.compile(absolute);
    made.set(at, validate);
    return validate;
  };
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (inner === null ? [] : [[key, withoutNulls(inner)]])),
  );
}

/**
 * Where CONTRACT_FACTS names a folder with the published rest-api.json, holds an answer against that too; null counts
 * as absent. Without it nothing is held.
 */
export function holdAgainstFacts(key: string, status: number, body: unknown): void {
  const dir = process.env['CONTRACT_FACTS'];
  if (!dir || OTHERWISE.has(key)) return;
  validators ??= load(dir);
  const validate = validators(key, status);
  if (!validate || validate(withoutNulls(body))) return;
  const errors = (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  assert.fail(`${key} answered what the published contract does not say: ${[...new Set(errors)].join('; ')}`);
}
